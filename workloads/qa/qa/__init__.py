"""A question-answering service: a front end, a back end, and what drives them."""
