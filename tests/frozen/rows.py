"""Grouped rows of a world as Spark sends them to workers; with `worker.py` the only file here that knows the package's insides."""

import hashlib
import json
import math
from functools import cached_property
from itertools import chain

import pyarrow as pa

from spark_rankeval.features.intents.worker import INTENT, INTENTS
from spark_rankeval.features.item_groups.group_rankings import POPULARITY_TABLES, table_of
from spark_rankeval.features.items import item_facts
from spark_rankeval.features.items.item_facts import add_counts, count_items
from spark_rankeval.features.no_answer.worker import NO_ANSWER
from spark_rankeval.features.vectors import catalogue
from spark_rankeval.metrics.base import as_float32
from spark_rankeval.ranking.lists import LABEL_COLUMNS
from spark_rankeval.ranking.recommended import FACT_TABLES, ITEM_FACTS
from spark_rankeval.request.options import POPULARITY
from spark_rankeval.worker import grouped_row
from spark_rankeval.worker.grouped_row import MARKS, slice_column
from spark_rankeval.worker.process import attach, pack_together, stream_of, tables_in
from spark_rankeval.worker.reading import INFINITE_SCORE, KIND_BITS, MODEL_BITS, RANKED, REJECTED

WHOLE, TEXT, NUMBERS = pa.int64(), pa.string(), pa.list_(pa.float64())
ITEM_TYPES = {"int64": (WHOLE, int), "string": (TEXT, str), "double": (pa.float64(), float)}
FACT_TYPES = {
    item_facts.TRAINING_USERS: WHOLE, item_facts.TRAINING_INTERACTIONS: WHOLE,
    item_facts.SHARE_ABOVE: pa.float64(), item_facts.ITEMS_ABOVE: pa.float64(),
    item_facts.CATEGORY: TEXT, item_facts.CATEGORY_SET: TEXT, item_facts.VECTOR: NUMBERS, item_facts.IS_IN_ITEMS: pa.bool_(),
}  # fmt: skip
OF_POPULARITY = {"popularity", "long_tail", "history_popularity"}
OF_ATTRIBUTES = {"category", "categories", "vector", "catalogue", "history_categories", "history_vector"}
#: The attributes of items, and the facts that they tell.
ATTRIBUTES = {item_facts.CATEGORY: {"category"}, item_facts.VECTOR: {"vector", "history_vector"}}
HASH_OF_PREDICTIONS = grouped_row.hash_column("predictions")


def hash_of(*values):
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=8).digest(), "little", signed=True)


def hashes_of(rows):
    return pa.array([None if each is None else hash_of(each) for each in rows], WHOLE)


def is_number(value):
    return value is not None and not math.isnan(value)


class Rows:
    """The batches of a case."""

    def __init__(self, case, world, task):
        self.case, self.world, self.task = case, world, task
        self.kind, self.read = ITEM_TYPES[world["item_type"]]
        self.tables = {table for fact in task.facts for table in FACT_TABLES[fact]}
        self.looks_up = case.get("lookup", "workers") == "workers"
        self.joins_items = not self.looks_up and bool(task.facts & set(ITEM_FACTS))
        self.has_attributes = any(case.get(name) for name in ("by", "user_weight", "cluster"))
        self.n_grades, self.models = case.get("relevances", 0), range(len(task.models))

    @cached_property
    def whole(self):
        """The batches of each task, with all users and predictions; the first row of a task has the packed tables."""
        return list(self.tasks())

    def tasks(self, keep=0, only=None):
        """The same of users whose ids have some hashes, with so many predictions each as pruning keeps."""
        packed = self.packed()
        for batches in self.world["tasks"]:
            # Spark sends no batch without rows, which would bring no packed table.
            rows = (self.batch(self.chosen(users, only), keep) for users in batches if users or not packed)
            yield list(attach(packed)(rows))

    def chosen(self, users, only):
        there = [user for user in users if self.has_attributes or not user["only_attributes"]]
        return there if only is None else [user for user in there if hash_of(user["id"]) in only]

    def batch(self, users, keep):
        columns = {
            grouped_row.NO_USER: pa.array([user["id"] is None for user in users], pa.bool_()),
            grouped_row.USER_HASH: pa.array([hash_of(user["id"]) for user in users], WHOLE),
            **(self.attributes(users) if self.has_attributes else {}),
            **self.labels(users),
            **(self.together(users) if self.are_together(keep) else self.sum_of_models(users, keep)),
            **self.further_lists(users),
            **{name: pa.array([total] * len(users), WHOLE) for name, total in self.totals.items()},
        }
        return pa.RecordBatch.from_pydict(columns)

    def raw(self, text):
        return None if text is None else self.read(text)

    def item(self, text):
        """An item that can be compared; else None."""
        value = self.raw(text)
        return None if isinstance(value, float) and math.isnan(value) else value

    def ids(self, lists):
        return pa.array(lists, pa.list_(self.kind))

    def attributes(self, users):
        case, places = self.case, range(self.case.get("by", 0))
        columns = {
            slice_column(place): pa.array([user["attributes"][place] for user in users], TEXT) for place in places
        }
        if case.get("user_weight") is True:
            columns[grouped_row.USER_WEIGHT] = pa.array([user["weight"] for user in users], pa.float64())
        if case.get("cluster"):
            columns[grouped_row.CLUSTER_HASH] = hashes_of(user["cluster"] for user in users)
        about = [[user[name] for name in ("attributes", "weight", "cluster")] for user in users]
        return columns | {
            grouped_row.ABSENT: pa.array([user["only_attributes"] for user in users], pa.bool_()),
            grouped_row.ATTRIBUTE_CONFLICTS: pa.array([user["conflicts"] for user in users], WHOLE),
            grouped_row.hash_column("attributes"): hashes_of(about),
        }

    # --- predictions

    def score(self, row):
        """The value by which a row is ranked; None if it says nothing."""
        if not self.case.get("rank"):
            return row["score"] if is_number(row["score"]) else None
        rank = row["rank"]
        return -rank if is_number(rank) and 0 <= rank < math.inf and rank == int(rank) else None

    def kind_of(self, user, row):
        """Whether a row is in the lists, or why it is not."""
        score = self.score(row)
        if user["id"] is None or self.item(row["item"]) is None or score is None:
            return REJECTED
        return INFINITE_SCORE if math.isinf(score) and not self.task.rank_infinite else RANKED

    def are_together(self, keep):
        """Whether the lists of all models come as one."""
        return len(self.models) > 1 and not (keep or self.case.get("arrays") or self.case.get("vectors"))

    def sum_of_models(self, users, keep):
        one = self.vectors if self.case.get("vectors") else self.arrays if self.case.get("arrays") else self.lists
        columns = {}
        for model in self.models:
            given = [user["predictions"][model] for user in users]
            given = given if self.case.get("arrays") else [rows or None for rows in given]
            of_model = one(users, given, model, keep)
            columns |= {grouped_row.column_of_model(name, model): values for name, values in of_model.items()}
        return columns

    def lists(self, users, given, model, keep):
        kinds = [[self.kind_of(user, row) for row in rows or ()] for user, rows in zip(users, given, strict=True)]
        ranked = [
            [row for row, kind in zip(rows or (), of, strict=True) if kind == RANKED]
            for rows, of in zip(given, kinds, strict=True)
        ]
        columns = {grouped_row.PREDICTION_ROWS: pa.array([rows and len(rows) for rows in given], WHOLE)}
        if not self.task.rank_infinite:
            columns[grouped_row.INFINITE_PREDICTIONS] = pa.array([of.count(INFINITE_SCORE) for of in kinds], WHOLE)
        if keep or self.kind != WHOLE or self.case.get("cost"):
            columns[HASH_OF_PREDICTIONS] = hashes_of(given)
        if keep:
            columns[grouped_row.VALID_PREDICTIONS] = pa.array(list(map(len, ranked)), WHOLE)
            ranked = [sorted(rows, key=lambda row: -self.score(row))[:keep] for rows in ranked]
        return columns | self.listed(ranked)

    def listed(self, ranked):
        columns = {
            grouped_row.ITEMS: self.ids([[self.item(row["item"]) for row in rows] for rows in ranked]),
            grouped_row.SCORES: pa.array([list(map(self.score, rows)) for rows in ranked], NUMBERS),
        }
        if self.case.get("cost"):
            costs = [[hash_of(row["item"]) % 7 / 2 for row in rows] for rows in ranked]
            columns[grouped_row.COSTS] = pa.array(costs, NUMBERS)
        return columns | ({grouped_row.FACTS: self.joined(ranked)} if self.joins_items else {})

    def together(self, users):
        """Several models in the same lists, with the mark of each row."""
        has_hashes = self.kind != WHOLE or self.case.get("cost", False)
        marks, ranked, n_infinite = [], [], []
        for user in users:
            rows = [(model, row) for model in self.models for row in user["predictions"][model] or ()]
            rows.sort(key=lambda each: hash_of(each[1]["item"], each[0]))
            kinds = [self.kind_of(user, row) for _, row in rows]
            hashes = [(hash_of(row) >> 28 << (MODEL_BITS + KIND_BITS)) * has_hashes for _, row in rows]
            marks.append(
                [
                    hashed | kind << MODEL_BITS | model
                    for hashed, kind, (model, _) in zip(hashes, kinds, rows, strict=True)
                ]
                or None
            )
            ranked.append([row for kind, (_, row) in zip(kinds, rows, strict=True) if kind == RANKED])
            n_infinite.append(kinds.count(INFINITE_SCORE))
        columns = {
            MARKS: pa.array(marks, pa.list_(WHOLE if has_hashes else pa.int32())),
            grouped_row.PREDICTION_ROWS: pa.array([each and len(each) for each in marks], WHOLE),
            **({} if self.task.rank_infinite else {grouped_row.INFINITE_PREDICTIONS: pa.array(n_infinite, WHOLE)}),
        }
        return columns | self.listed(ranked)

    def arrays(self, users, given, model, keep):
        columns = {
            grouped_row.ITEMS: self.ids([rows and [self.raw(row["item"]) for row in rows] for rows in given]),
            grouped_row.PREDICTION_ROWS: self.rows_of_arrays(users, given),
            HASH_OF_PREDICTIONS: hashes_of(given),
        }
        if self.case["arrays"] == "scored":
            columns[grouped_row.SCORES] = self.shorter(
                users, [rows and [row["score"] for row in rows] for rows in given], NUMBERS
            )
        return columns | ({grouped_row.FACTS: self.joined(rows or () for rows in given)} if self.joins_items else {})

    @staticmethod
    def rows_of_arrays(users, given):
        return pa.array(
            [None if rows is None else user["array_rows"] for user, rows in zip(users, given, strict=True)], WHOLE
        )

    @staticmethod
    def shorter(users, lists, kind):
        """The lists, some of them without their last entry."""
        return pa.array(
            [each[:-1] if each and user["lacks_score"] else each for user, each in zip(users, lists, strict=True)], kind
        )

    def vectors(self, users, given, model, keep):
        columns = {
            grouped_row.VECTOR: pa.array(
                [user["vector"] and [(model + 1) * one for one in user["vector"]] for user in users], NUMBERS
            ),
            grouped_row.BIAS: pa.array([user["bias"] for user in users], pa.float64()),
            grouped_row.PREDICTION_ROWS: pa.array(
                [None if user["only_attributes"] else user["array_rows"] for user in users], WHOLE
            ),
            HASH_OF_PREDICTIONS: hashes_of(["vectors"] * len(users)),
        }
        if self.case.get("candidates"):
            columns[grouped_row.CANDIDATES] = self.ids(
                [user["candidates"] and list(map(self.item, user["candidates"])) for user in users]
            )
        return columns

    # --- labels

    def rows_of(self, labels):
        """The rows of labels; null if there is no row, and one for each subtopic if labels have these."""
        if labels is None or not self.task.has_subtopic_rows:
            return labels
        return [row | {"subtopic": topic} for row in labels for topic in row["subtopics"] or [None]]

    def is_label(self, user, row):
        """Whether Spark sends a row of labels to workers."""
        grades = row["grades"][: self.n_grades]
        if user["id"] is None or self.item(row["item"]) is None or None in grades:
            return False
        if self.task.unusual_grades != "keep":
            largest = as_float32(self.task.largest_grade) if self.case.get("float32") else self.task.largest_grade
            if not all(grade <= largest for grade in grades):
                return False
        return all(
            is_number(row[name])
            and not any(compare(row[name], bound) for _, compare, bound in LABEL_COLUMNS[name].wrong)
            for name in self.task.label_columns
        )

    def labels(self, users):
        arrays, given = self.case.get("label_arrays"), [self.rows_of(user["labels"]) for user in users]
        given = given if arrays else [rows or None for rows in given]
        rows, n_rows = given, self.rows_of_arrays(users, given)
        if not arrays:
            rows = [
                [row for row in each or () if self.is_label(user, row)] for user, each in zip(users, given, strict=True)
            ]
            n_rows = pa.array([each and len(each) for each in given], WHOLE)
        columns = {
            grouped_row.LABELS: self.ids([each and [self.raw(row["item"]) for row in each] for each in rows]),
            grouped_row.LABEL_ROWS: n_rows,
            grouped_row.hash_column("labels"): hashes_of(given),
        }
        kind = pa.list_(pa.float32()) if self.case.get("float32") else NUMBERS
        for place in range(self.n_grades):
            grades = [each and [row["grades"][place] for row in each] for each in rows]
            columns[grouped_row.grades_column(place)] = (
                self.shorter(users, grades, kind) if arrays else pa.array(grades, kind)
            )
        for name in self.task.label_columns:
            columns[grouped_row.label_column(name)] = pa.array(
                [each and [row[name] for row in each] for each in rows], NUMBERS
            )
        return columns

    def intents(self, users):
        grades = [grouped_row.grades_column(place) for place in range(self.n_grades)]
        fields = {item_facts.ITEM: self.kind, INTENT: TEXT, **dict.fromkeys(grades, pa.float64())}
        by_rows = self.task.has_subtopic_rows
        genres = {
            item: {genre for row in rows for genre in row["genres"] or ()} for item, rows in self.rows_by_item.items()
        }
        lists = []
        for user in users:
            pairs = []
            for row in self.rows_of(user["labels"]) or ():
                item, known = self.item(row["item"]), row["grades"][: self.n_grades]
                is_used = user["id"] is not None and item is not None and all(map(is_number, known))
                if by_rows:
                    is_used = (
                        is_used and self.is_label(user, row) and (self.task.clip_grades or min(known, default=0) >= 0)
                    )
                about = [row["subtopic"]] if by_rows else sorted(genres.get(item) or ())
                pair = {item_facts.ITEM: item, **dict(zip(grades, known, strict=True))}
                pairs += [pair | {INTENT: each} for each in about if is_used and each is not None]
            lists.append(pairs or None)
        return pa.array(lists, pa.list_(pa.struct(fields)))

    # --- further lists of users

    def further_lists(self, users):
        columns, asked = {}, self.task.facts
        if self.case.get("no_answer"):
            marks = [1 if user["id"] is not None and hash_of(user["id"]) % 3 == 0 else None for user in users]
            columns[NO_ANSWER] = pa.array(marks, WHOLE)
        if self.case.get("exclude"):
            columns[grouped_row.EXCLUDED] = self.ids(
                [user["excluded"] and list(map(self.item, user["excluded"])) for user in users]
            )
            columns[grouped_row.hash_column("exclude")] = pa.array(
                [hash_of(user["excluded"]) if user["excluded"] else 0 for user in users]
            )
        if any(fact.startswith("history") for fact in asked):
            columns[item_facts.HISTORY] = self.history(users)
        if "baseline" in asked:
            lists = [self.rows_of_user("baseline", user) for user in users]
            columns[item_facts.BASELINE] = self.ids(
                [rows and [self.item(row["item"]) for row in rows] for rows in lists]
            )
            columns[item_facts.BASELINE_SCORES] = pa.array(
                [rows and [row["score"] for row in rows] for rows in lists], NUMBERS
            )
        return columns | ({INTENTS: self.intents(users)} if "intents" in asked else {})

    def rows_of_user(self, table, user):
        return [row for row in self.world[table] if row["user"] == user["id"] is not None] or None

    def history(self, users):
        lists = [
            rows and [self.item(row["item"]) for row in rows]
            for rows in (self.rows_of_user("training", user) for user in users)
        ]
        lists = [items and [item for item in dict.fromkeys(items) if item is not None] for items in lists]
        if self.looks_up or self.task.facts <= {"history", "baseline"}:
            return self.ids(lists)
        kinds = {
            item_facts.ITEM: self.kind,
            **{
                name: FACT_TYPES[name]
                for name in (item_facts.TRAINING_USERS, item_facts.CATEGORY_SET, item_facts.VECTOR)
            },
        }
        known = [
            items and [{item_facts.ITEM: item, **self.known_facts.get(item, {})} for item in items] for items in lists
        ]
        return pa.array(known, pa.list_(pa.struct(kinds)))

    # --- facts of items

    @cached_property
    def rows_by_item(self):
        rows = {}
        for row in self.world["items"]:
            rows.setdefault(self.item(row["item"]), []).append(row)
        return rows

    @cached_property
    def attributes_of_items(self):
        """A row an item, with its attributes as far as its rows agree."""
        table = []
        for item, rows in self.rows_by_item.items():
            known = {item_facts.ROWS: len(rows), item_facts.ITEM: item}
            for name in [name for name, of in ATTRIBUTES.items() if of & self.task.facts]:
                values = [row[name] for row in rows if row[name] is not None]
                differ = any(value != values[0] for value in values) if values else None
                known |= {name: None if differ or not values else values[0], item_facts.CONFLICT + name: differ}
            if self.task.facts & {"categories", "history_categories"}:
                lists = [row["genres"] for row in rows if row["genres"] is not None]
                known[item_facts.CATEGORY_SET] = (
                    json.dumps(sorted({*chain(*lists)}), separators=(",", ":")) if lists else None
                )
            table.append(known)
        return table

    @cached_property
    def popularity(self):
        """How many users of the training data have each item, and how many rows there are of it; None: rows that say nothing."""
        users = {}
        for row in self.world["training"]:
            users.setdefault(self.item(row["item"]), []).append(row["user"])
        return {item: (len({*of_item}), len(of_item)) for item, of_item in users.items()}

    @cached_property
    def known_facts(self):
        """What a join by item would say of each item."""
        counts = {item: count for item, count in self.popularity.items() if item is not None}
        known = {}
        for each, (users, rows) in counts.items():
            above = [n for n, _ in counts.values() if n > users]
            shares = sum(above) / sum(n for n, _ in counts.values()), len(above) / len(counts)
            known[each] = dict(zip(FACT_TYPES, (users, rows, *shares), strict=False))
        for row in self.attributes_of_items:
            known.setdefault(row[item_facts.ITEM], {}).update(row | {item_facts.IS_IN_ITEMS: True})
        known.pop(None, None)
        return known

    def joined(self, lists):
        asked = {name: kind for name, kind in FACT_TYPES.items() if name in item_facts.fields_of(self.task.facts)}
        known = [[self.known_facts.get(self.item(row["item"]), {}) for row in rows] for rows in lists]
        structs = [[{name: of_item.get(name) for name in asked} for of_item in rows] for rows in known]
        return pa.array(structs, pa.list_(pa.struct(asked)))

    @cached_property
    def totals(self):
        """What every row repeats of the tables of facts, and their hashes."""
        asked, totals = self.task.facts, {}
        if "training" in self.tables and not (self.looks_up and asked & OF_POPULARITY):
            n_users = len({row["user"] for row in self.world["training"] if self.item(row["item"]) is not None})
            totals |= {item_facts.N_TRAINING_USERS: n_users, item_facts.TRAINING_HASH: hash_of(self.world["training"])}
            totals["n_invalid_training"] = self.popularity.get(None, (0, 0))[1]
            if asked & OF_POPULARITY:
                rows = [n for item, (_, n) in self.popularity.items() if item is not None]
                totals |= {item_facts.N_TRAINING_ITEMS: len(rows), item_facts.N_TRAINING_INTERACTIONS: sum(rows)}
        if "items" in self.tables:
            totals[grouped_row.hash_column("items")] = hash_of(self.world["items"])
            if not (self.looks_up and asked & OF_ATTRIBUTES):
                totals |= self.totals_of_attributes()
        if "baseline" in self.tables:
            totals |= {grouped_row.hash_column("baseline"): hash_of(self.world["baseline"]), "n_invalid_baseline": 0}
        return totals

    def totals_of_attributes(self):
        known = [row for row in self.attributes_of_items if row[item_facts.ITEM] is not None]
        totals = {item_facts.N_ITEMS: len(known), "n_invalid_items": len(self.rows_by_item.get(None, ()))}
        for name, total in item_facts.CONFLICTS.items():
            totals[total] = sum(row.get(item_facts.CONFLICT + name) or 0 for row in known)
        lengths = [len(row[item_facts.VECTOR]) for row in known if row.get(item_facts.VECTOR)]
        usual = max(lengths, key=lambda length: (lengths.count(length), length), default=0)
        return totals | {item_facts.DIMENSION: usual, "n_ragged_vectors": len(lengths) - lengths.count(usual)}

    # --- packed tables of a task

    def packed(self):
        """The tables that the first row of a task has, by their columns."""
        asked, tables = self.task.facts, {}
        if self.looks_up and asked & OF_POPULARITY:
            tables[item_facts.POPULARITY_TABLE] = self.packed_popularity
        if self.looks_up and asked & OF_ATTRIBUTES:
            rows = self.attributes_of_items
            kinds = {
                item_facts.ITEM: self.kind,
                item_facts.ROWS: WHOLE,
                **FACT_TYPES,
                **{item_facts.CONFLICT + name: pa.bool_() for name in ATTRIBUTES},
            }
            tables[item_facts.ATTRIBUTES_TABLE] = table(
                rows, {name: kind for name, kind in kinds.items() if any(name in row for row in rows)}
            )
        if "groups" in asked:
            pairs = {
                (self.item(row["item"]), group) for row in self.world["items"] for group in row["groups"] or [None]
            }
            rows = [
                {item_facts.ITEM: item, item_facts.GROUP: group}
                for item, group in sorted(pairs, key=repr)
                if item is not None
            ]
            tables[item_facts.GROUPS_TABLE] = table(rows, {item_facts.ITEM: self.kind, item_facts.GROUP: TEXT})
        if "levels" in asked and item_facts.POPULARITY_TABLE not in tables:
            tables[item_facts.LEVELS_TABLE] = self.packed_popularity
        for place, name in enumerate(
            next((each.groups.attributes for each in self.task.features if each.name == "groups"), ())
        ):
            if name != POPULARITY:
                tables[table_of(place)] = self.packed_groups(name)
            elif not set(POPULARITY_TABLES) & set(tables):
                tables[table_of(place)] = self.packed_popularity
        catalogues = range(len(self.case.get("vectors", ())))
        return tables | {
            grouped_row.column_of_model(grouped_row.CATALOGUE, model): self.packed_catalogue(model)
            for model in catalogues
        }

    def packed_groups(self, name):
        counts = {}
        for row in self.world["items"]:
            for nth, group in enumerate((row[name] or [None]) if name == "genres" else [row[name]]):
                pair = self.item(row["item"]), group
                counts[pair] = counts.get(pair, 0) + (nth == 0)
        names = {item_facts.ITEM: self.kind, item_facts.GROUP: TEXT, item_facts.ROWS: WHOLE}
        return table([dict(zip(names, (*pair, n), strict=True)) for pair, n in counts.items()], names)

    @cached_property
    def packed_popularity(self):
        """Counted in two parts of the users, which meet."""
        lists = {}
        for row in self.world["training"]:
            lists.setdefault(row["user"], []).append(self.item(row["item"]))
        kinds = {item_facts.CONSUMED: pa.list_(self.kind), item_facts.ROWS: WHOLE, item_facts.TRAINING_HASH: WHOLE}
        rows = [
            ([item for item in items if item is not None], items.count(None), hash_of(user, items) >> 20)
            for user, items in lists.items()
        ]
        users = [dict(zip(kinds, row, strict=True)) for row in rows]
        count = pack_together(count_items, add_counts, None)
        batches = [pa.RecordBatch.from_pylist(part, pa.schema(kinds)) for part in (users[::2], users[1::2])]
        parts = chain.from_iterable(count(iter([batch])) for batch in batches)
        whole = list(pack_together(tables_in, add_counts, None)(parts))
        return whole[0].column(0)[0].as_py() if whole else None

    def packed_catalogue(self, model):
        kinds = {
            catalogue.ITEM: self.kind,
            catalogue.VECTOR: NUMBERS,
            catalogue.ITEM_BIAS: pa.float64(),
            catalogue.IS_CATALOGUE_ROW: pa.bool_(),
        }
        rows = [(self.item(row["item"]), row["vector"], row["bias"] * (model + 1), True) for row in self.world["items"]]
        rows = [dict(zip(kinds, row, strict=True)) for row in (*rows, (None, None, 0.0, False))]
        (packed,) = catalogue.pack_catalogue(iter([pa.RecordBatch.from_pylist(rows, pa.schema(kinds))]))
        return packed.column(0)[0].as_py()


def table(rows, kinds):
    """A packed table; None stands for a table without a row."""
    return stream_of(pa.Table.from_pylist(rows, pa.schema(kinds))).to_pybytes() if rows else None
