"""Films that users liked, as rows and as arrays of structs of several fields, of which that of items is not the first."""

from pyspark.sql import functions as F

#: User, film, rank.
RANKED = [(user, 10 + place, (3 * place + user) % 7 + 1) for user in range(9) for place in range(7)]
WANTED = {(user, film) for user, film, _ in RANKED if (user + film) % 3 == 0}


def tables_of(spark):
    rows = spark.createDataFrame(RANKED, "user int, movieId int, rank int")
    labels = rows.where("pmod(user + movieId, 3) = 0").select("user", "movieId")

    def lists(table, name, *fields):
        return table.groupBy("user").agg(F.sort_array(F.collect_list(F.struct(*fields))).alias(name))

    minus_rank = (-F.col("rank")).cast("double").alias("rating")
    liked = lists(labels, "liked", F.lit(1.0).alias("grade"), "movieId")
    both = lists(rows, "recs", "rank", "movieId").join(liked, "user")
    return {
        "rows": rows,
        "ranked": both.select("user", "recs"),
        "scored": lists(rows, "recs", minus_rank, "movieId"),
        "renamed": both.selectExpr("user", "transform(recs, one -> struct(one.movieId AS MOVIEID, one.rank)) AS recs"),
        "labels": labels,
        "other": labels.withColumnRenamed("movieId", "film"),
        "liked": both.select("user", "liked"),
        "both": both,
        "known": rows.where("pmod(user + movieId, 3) = 1").select("user", "movieId"),
    }
