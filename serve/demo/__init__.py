"""A base model and two adapters to try the server with, at no download beyond one PyPI package."""
