"""What is found in texts character by character: classes, words, lines, n-grams that come again."""
