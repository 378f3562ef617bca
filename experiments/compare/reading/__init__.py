"""Run folders as data: read without trust, as strangers may have written them."""
