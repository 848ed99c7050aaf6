"""A configuration as it stands on disk: TOML or YAML, by the ending of the file's name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from spark_rankeval.errors import ConfigurationError
from spark_rankeval.extras import needs_extra
from spark_rankeval.jobs.secrets import HIDDEN


def read_file(path: str) -> dict[str, Any]:
    """The settings in a file: ``.yaml`` and ``.yml`` are YAML, all others TOML.

    Raises:
        ConfigurationError: it cannot be read, or is not what its name says.
        MissingExtraError: it is YAML, and PyYAML is not installed.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix.lower() in (".yaml", ".yml"):
            return _read_yaml(path, text)
        return tomllib.loads(text)
    except OSError as error:
        msg = f"{path}: {error.strerror or error}"
        raise ConfigurationError(msg) from error
    # A text that is not UTF-8 is one.
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        msg = f"{path} is not TOML: {error}"
        raise ConfigurationError(msg) from error


def _read_yaml(path: str, text: str) -> dict[str, Any]:
    with needs_extra("yaml", "configurations in YAML"):
        import yaml  # noqa: PLC0415 # an extra

    class Loader(yaml.SafeLoader):
        """Plain values alone, and no key twice: the last would win in silence."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            twice = [key for index, key in enumerate(keys) if key in keys[:index]]
            if twice:
                msg = f"{path} is not YAML: the key {twice[0]!r} stands twice (line {node.start_mark.line + 1})"
                raise ConfigurationError(msg)
            return super().construct_mapping(node, deep=deep)

    try:
        # The loader makes plain values alone, as yaml.safe_load does.
        settings = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        # Not the lines around it, in which a password may stand, nor the words of it that YAML quotes.
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        problem = re.sub(r"'[^'\s]{2,}'", HIDDEN, error.problem or "")
        msg = f"{path} is not YAML: {problem}{line}; a value that begins with *, & or ! needs quotes"
        raise ConfigurationError(msg) from error
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"{path} is not YAML: {type(error).__name__}"
        raise ConfigurationError(msg) from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        msg = f"{path} must hold sections, each with keys; it holds a {type(settings).__name__}"
        raise ConfigurationError(msg)
    return settings
