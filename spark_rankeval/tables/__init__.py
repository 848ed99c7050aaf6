"""The tables of figures, and their writers: text, Markdown, HTML, LaTeX and the format of trec_eval."""
