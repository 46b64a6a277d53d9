"""The steps on documents in a recipe: a class for each step, and `registry` with the tuple of all.

    documents:
      - license_filter: {keep: [CC-BY-4.0, MIT]}        # by a column, license
      - url_rules: {domains: ut1/adult/domains}         # by a column, url
      - extract: structured                 # the main content of a page as Markdown
      - language_id: {model: lid.176.bin, keep: {en: 0.65}}
      - clean: zyda1                        # or {unicode: true, newlines: true, runs: {"-": 9}}
      - filter: zyda1                       # a set of rules with its published defaults
      - filter: {gopher-quality: {words: [50, 100000], hashes: null}}
      - filter: {mine: {fineweb.short_lines: [null, 0.5]}}
      - measure: [fineweb, code]            # columns of the published documents; nothing is removed
      - filter: my_steps:shouting           # a function of the user's own
      - decontaminate: {sets: {mmlu: mmlu.parquet}}   # remove documents with items of evaluation sets

The class of the same name in `tasks.documents.steps` runs the step.
"""
