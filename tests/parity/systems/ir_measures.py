"""ir_measures, with pytrec_eval, the MS MARCO script, gdeval (Perl) and cwl_eval behind it."""

import ir_measures

from systems.tables import qrels_of, run_of

PACKAGES = ("ir_measures", "pytrec_eval-terrier", "cwl-eval", "numpy")
POPULATION = "every user with labels; one without predictions counts the measure's default, 0"


def run(users, measures):
    # gdeval.pl takes only numbers for queries.
    number = {name: str(place) for place, name in enumerate(users)}
    name_of = {place: name for name, place in number.items()}
    qrels = {number[name]: labels for name, labels in qrels_of(users).items()}
    predictions = {number[name]: scores for name, scores in run_of(users).items()}
    results = {}
    for text in measures:
        # One by one: a measure's value must not depend on which others are asked for.
        measure = ir_measures.parse_measure(text)
        aggregate, values = ir_measures.calc([measure], qrels, predictions)
        results[text] = {name_of[found.query_id]: found.value for found in values}, aggregate[measure]
    return results
