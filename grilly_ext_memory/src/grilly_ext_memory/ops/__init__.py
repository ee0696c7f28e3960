"""The ops of this package; importing it registers them all."""
