"""What tables of figures show, and how they are written: as text, Markdown, HTML, LaTeX and as trec_eval prints."""
