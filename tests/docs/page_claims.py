"""Who runs the code of the pages. What is in none of these tables is run by tests/docs/test_doc_pages.py, top to bottom.

A block is named by its page and how its first line begins.
"""

from __future__ import annotations

# Pages that begin where a reader has these already: they are taken from a simulated plant.
HAS = {
    "docs/audit.md": ("log.parquet", "problem.yaml", "policy"),
    "docs/certify.md": ("log.parquet", "problem.yaml"),
    "docs/init.md": ("log.parquet",),
    "docs/learn.md": ("log.parquet", "problem.yaml", "today.csv"),
    "docs/plan.md": ("problem.yaml", "pilot.parquet"),
    "docs/report.md": ("log.parquet", "problem.yaml", "policy"),
}

# Pages whose code a test of their own runs from top to bottom. Those of data sets need the files, and are skipped without them.
FOLLOWED = {
    "docs/bring-your-own.md": "tests/adapters/test_bring_your_own_page.py",
    "docs/continuous.md": "tests/cli/test_continuous_docs.py",
    "docs/examples/heartsteps.md": "tests/adapters/test_example_pages.py",
    "docs/examples/hillstrom.md": "tests/adapters/test_example_pages.py",
    "docs/examples/oats.md": "tests/adapters/test_example_pages.py",
    "docs/examples/open-bandit.md": "tests/adapters/test_example_pages.py",
}

# What is written instead of parts of the code, so that a page takes seconds.
_FEW = "--runs 1 --episodes 40 --prior 30 --judged 300 --set inner_steps=3 --bound plain"
QUICKER = {
    "docs/agents.md": {"--episodes 100": "--episodes 3"},
    "docs/certify.md": {"--out policy/": "--out policy/ --scope dose"},
    "docs/coverage.md": {"--runs 200": _FEW},
    "docs/learn.md": {"--out policy/": "--out policy/ --scope dose"},
    "docs/plan.md": {
        "--gain 0.02 --spread 0.1": "--gain 0.5 --spread 0.1 --level dose",
        "aegis plan": "aegis plan --explore 0.5 --caps 2",
    },
    "docs/validate.md": {"--runs 200 --workers 2": _FEW},
}

# The test that runs a block, in a file that reads the page.
_README = "tests/test_readme.py::test_the_example_prints_what_it_shows"
_COMMANDS = "tests/docs/test_commands_page.py::test_the_commands_of_the_page_run_one_after_the_other"
_WORKED = "tests/cli/test_handover_docs.py::test_the_worked_run_prints_what_the_page_shows"
_STAGED = "tests/cli/test_handover_docs.py::test_the_file_of_the_page_runs"
_LOG = "tests/logs/test_logs_page.py::test_the_example_is_the_log_it_says"
_COMPARED = "tests/comparison/test_compare_page.py::test_the_commands_and_the_code_run"
_GREENHOUSE = "tests/cli/test_validate.py::test_a_plant_of_ones_own"
_STORE = "tests/service/test_serve_page.py::test_the_commands_of_the_page_run"
RUN_BY = {
    ("README.md", "make demo"): "tests/test_readme.py::test_both_make_targets_exist_and_ci_runs_the_tests",
    ("README.md", "pip install ."): _README,
    ("README.md", "..."): _README,
    ("docs/bench.md", "title: Does standardising"): "tests/paper/test_bench_page.py::test_the_file_on_the_page_is_a_bench",
    ("docs/bench.md", "from aegis import paper"): "tests/paper/test_bench_page.py::test_the_program_on_the_page_runs",
    (
        "docs/certify.md",
        '"sensitivity"',
    ): "tests/certificate/test_certify_page.py::test_the_sensitivity_on_the_page_has_its_fields",
    ("docs/certify.md", "propensity:"): "tests/certificate/test_certify_page.py::test_the_propensity_on_the_page_is_one",
    ("docs/commands.md", "aegis simulate"): _COMMANDS,
    ("docs/commands.md", "aegis handover"): _COMMANDS,
    ("docs/commands.md", "import aegis"): "tests/docs/test_commands_page.py::test_python_example_runs",
    ("docs/compare.md", "aegis compare"): _COMPARED,
    ("docs/compare.md", "import aegis"): _COMPARED,
    ("docs/compare.md", "from aegis import Source"): _COMPARED,
    ("docs/handover.md", "aegis handover --set"): _WORKED,
    ("docs/handover.md", "Handed over:"): _WORKED,
    ("docs/handover.md", "from aegis.handover"): "tests/cli/test_handover_docs.py::test_the_hosts_of_the_page_are_made",
    ("docs/handover.md", "world: additive"): _STAGED,
    ("docs/handover.md", "aegis handover --config"): _STAGED,
    (
        "docs/handover.md",
        "aegis handover --gate published",
    ): "tests/cli/test_handover_docs.py::test_the_setting_of_the_paper_runs",
    ("docs/handover.md", "from pathlib"): "tests/cli/test_handover_docs.py::test_the_python_of_the_page_runs",
    ("docs/handover.md", "import aegis"): "tests/cli/test_handover_docs.py::test_the_python_of_the_page_runs",
    ("docs/logs.md", "episode: batch"): _LOG,
    ("docs/logs.md", "batch;machine"): _LOG,
    ("docs/logs.md", "from aegis import Source"): "tests/logs/test_logs_page.py::test_the_snippets_run",
    ("docs/logs.md", "log.csv, row 4"): "tests/logs/test_logs_page.py::test_the_messages_are_those_of_the_reader",
    ("docs/problem.md", "episode:"): "tests/problem/test_problem_file_page.py::test_every_example_is_a_problem",
    ("docs/serve.md", "aegis serve --simulate"): "tests/service/test_serve_page.py::test_the_simulated_plant_is_counted",
    (
        "docs/serve.md",
        "import aegis",
    ): "tests/service/test_serve_page.py::test_the_control_system_of_the_page_goes_on_without_a_gate",
    ("docs/serve.md", "aegis token"): _STORE,
    ("docs/serve.md", "aegis store"): _STORE,
    ("docs/validate.md", "import aegis"): "tests/cli/test_validate.py::test_the_python_example_runs",
    ("docs/validate.md", '"""A greenhouse'): _GREENHOUSE,
    ("docs/validate.md", "aegis validate --plant"): _GREENHOUSE,
}

# How many blocks a name stands for, where it is not one.
SEVERAL = {
    ("docs/logs.md", "from aegis import Source"): 2,
    ("docs/problem.md", "episode:"): 3,
    ("docs/serve.md", "aegis store"): 4,
}

# Blocks that need a store, a cluster or hours: a test runs the same commands on a smaller matter.
LIKE = {
    ("docs/bench.md", "aegis bench list"): "tests/cli/test_bench.py",
    ("docs/bench.md", "aegis bench run mine.yaml"): "tests/cli/test_bench.py",
    ("docs/index.md", "aegis demo"): "tests/cli/test_demo.py",
    ("docs/logs.md", "aegis certify s3://"): "tests/logs/test_object_store_commands.py",
    ("docs/scale.md", "aegis certify log/"): "tests/cli/test_options.py",
    ("docs/serve.md", "aegis certify export/"): "tests/service/test_journal_export.py",
}

# Blocks that nothing runs, with the reason.
NOT_RUN = {
    ("docs/concepts.md", "batch B-17"): "a picture of a log, not code",
    ("docs/concepts.md", "bound   "): "a picture of a line of numbers, not code",
    ("docs/coverage.md", "python benchmarks/"): "hours; tests/validation compares the page with the stored results",
    ("docs/serve.md", "*/10"): "a line for cron; tests/service/test_monitoring.py reads the head and verifies with it",
    ("docs/serve.md", "pip install"): "installs, and serves until it is stopped; tests/service starts gates of its own",
}
