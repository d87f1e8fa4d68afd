"""Classes of transformers, what their attention calls, and the rows of the table of ``--model`` that stand for them."""
