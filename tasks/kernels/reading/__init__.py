"""What is found in texts character by character: classes, words, lines, passages that come again."""
