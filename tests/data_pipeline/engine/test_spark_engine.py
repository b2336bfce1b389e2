import importlib.util
import re

import pyarrow as pa
import pytest

from data_pipeline import pipeline
from data_pipeline.engine.local import mebibytes
from data_pipeline.engine.spark import sql_type
from data_pipeline.engine.stage_tables import SCHEMAS
from data_pipeline.links import link_graph, web_sites
from data_pipeline.output import manifest
from data_pipeline.tasks import acm, adp, prop, qdm, wlp
from harp_jax.base.errors import InputError
from tests.support import corpus
from tests.support.commands import python

FORBIDDEN = re.compile(
    r"\b(hash|md5|lower|upper|initcap|list|array_agg|collect_list|string_agg|float|double|real|avg|random|rand|rank|first|"
    r"last|any_value|arg_min|arg_max|strftime|date_trunc)\s*\(|/|\bLIMIT\b|\bILIKE\b|\bSIMILAR\b",
    re.IGNORECASE,
)


def test_sql_keeps_to_what_both_engines_compute_alike():
    found: list[str] = []
    for module in (web_sites, link_graph, manifest, pipeline, prop, acm, adp, qdm, wlp):
        for name, value in vars(module).items():
            if name.endswith("_SQL"):
                found += value.values() if isinstance(value, dict) else [value]
    assert len(found) >= 12
    for sql in found:
        assert not FORBIDDEN.search(sql), sql
        assert all("ORDER BY" in order for order in re.findall(r"row_number\(\) OVER \(([^)]*)\)", sql)), sql


def test_types_and_sizes():
    assert all(sql_type(field.type) for schema in SCHEMAS.values() for field in schema)
    assert sql_type(pa.list_(pa.struct([("end", pa.int32())]))) == "ARRAY<STRUCT<`end`: INT>>"
    assert (mebibytes("4GB"), mebibytes("2 GiB"), mebibytes("600mb")) == (3814, 2048, 572)
    with pytest.raises(InputError, match="memory_limit"):
        mebibytes("much")


SPARK = "Java 17" if importlib.util.find_spec("pyspark") else "pip install '.[spark]'"


@pytest.mark.parametrize("flag, message", [("--engine=spark", SPARK), ("--master=local[2]", "--engine=spark")])
def test_bad_usage_is_one_line_and_status_2(tmp_path, flag, message):
    folder = corpus.write(tmp_path / "corpus", files=1)
    arguments = ["--config=configs/data/demo.py", f"--config.source.paths=('{folder}/pages-0.jsonl',)"]
    arguments += ["--config.source.format=linked_jsonl", f"--config.tokenizer={folder}/vocab.txt"]
    words = ["-m", "data_pipeline.main", *arguments, f"--output={tmp_path / 'out'}", flag]
    error = python(*words, status=2, JAVA_HOME=str(tmp_path / "none")).stderr
    lines = [line for line in error.splitlines() if "error: " in line]
    assert len(lines) == 1 and message in lines[0] and "Traceback" not in error
    assert not (tmp_path / "out" / "manifest.json").exists()
