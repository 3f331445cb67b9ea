"""The comparison of two tables: did the inputs shift, did the relation of y to them change, where, and how sure."""
