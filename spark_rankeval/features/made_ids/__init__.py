"""Rows that name no item: numbers of rows stand for items, and what a row says decides its place among equal scores."""
