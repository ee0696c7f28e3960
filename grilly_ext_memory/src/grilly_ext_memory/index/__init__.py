"""Indexes of vectors: what is stored (`codecs`, `product`), where (`segments`), and the search (`flat`, `inverted`)."""
