"""The report in its forms: terminal, Markdown, web page, figures, files for machines."""
