"""Text in, ranked text out: encoders, a store of documents, and search over both."""
