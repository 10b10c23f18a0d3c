"""The questions over HTTP, and as tools for language models. The only package that imports FastAPI
and MCP."""
