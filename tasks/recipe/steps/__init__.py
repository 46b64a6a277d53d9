"""The steps on documents that a recipe can ask for: a class for each, and in `registry` the tuple of all.

    documents:
      - license_filter: {keep: [CC-BY-4.0, MIT]}        # by a column, license
      - url_rules: {domains: ut1/adult/domains}         # by a column, url
      - extract: structured                 # of a page its main content as Markdown
      - language_id: {model: lid.176.bin, keep: {en: 0.65}}
      - clean: zyda1                        # or {unicode: true, newlines: true, runs: {"-": 9}}
      - filter: zyda1                       # a set of rules with its published defaults
      - filter: {gopher-quality: {words: [50, 100000], hashes: null}}
      - filter: {mine: {fineweb.short_lines: [null, 0.5]}}
      - measure: [fineweb, code]            # columns of the published documents; nothing is removed
      - filter: my_steps:shouting           # a function of the user's own
      - decontaminate: {sets: {mmlu: mmlu.parquet}}   # remove documents with items of evaluation sets

Each step is executed by the class of the same name in `tasks.documents.steps`.
"""
