"""Run the stages of a job: maps over Parquet parts and joins in SQL, on one machine or on Spark, resumable at any point.

In: the job, functions for the maps, SQL for the joins.
Out: tables as Parquet files under the work directory, identical for every engine and number of workers.
Imports: ground files of harp_jax.
Files:
  tables    the tables between the stages and their columns; what was dropped and why, counted with examples
  job       what every engine runs: job, parts of a map, the operations on tables
  store     tables on disk, marks of finished parts
  local     the local engine: processes and DuckDB; the same without worker processes, for small input
  spark     the same stages on a Spark cluster
"""
