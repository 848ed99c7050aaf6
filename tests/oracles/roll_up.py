"""Chunks rolled up to documents, by plain loops. Chunks are (document, score) pairs, and labels (document, grade) pairs."""

from oracles.rankings import rank


def documents_of(chunks):
    """The documents, each with the score of its best chunk, in the order of these."""
    best = {}
    for document, score in rank(chunks, "position"):
        best.setdefault(document, score)
    return list(best.items())


def places_of(chunks, ties="item_asc"):
    """The list in which each chunk has a place, in order: the first chunk of a document stands for it, the others for nothing."""
    places = []
    for place, (document, _) in enumerate(rank(chunks, ties)):
        is_first = all(document != other for other, _ in places)
        places.append((document if is_first else f"chunk at place {place}", None))
    return places


def labels_of(labels):
    """The documents that are labelled, each with its highest grade."""
    highest = {}
    for document, grade in labels:
        highest[document] = max(grade, highest.get(document, grade))
    return list(highest.items())
