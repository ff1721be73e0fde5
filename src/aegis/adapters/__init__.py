"""Other libraries' policies and logs, and published data sets, brought into the form of this one."""

from aegis.adapters.base import LOG_NAME, PROBLEM_NAME, ConvertedLog, write_converted
from aegis.adapters.datasets.catalogue import DATASETS, DatasetEntry, read_dataset
from aegis.adapters.dsjson import convert_dsjson, read_dsjson
from aegis.adapters.dsjson_events import SKIPPED, UNOBSERVED, DsjsonDeclaration
from aegis.adapters.estimator_data import EstimatorInputs, FittedPolicy, TrainingRows, record_fit, training_rows
from aegis.adapters.estimator_policies import EstimatorPolicy, RegressorRewards, classifier_policy, regressor_policy
from aegis.adapters.mlflow_logging import log_certificate
from aegis.adapters.obp_feedback import action_dist, from_feedback, load_feedback, save_feedback, to_feedback

__all__ = [
    "DATASETS",
    "LOG_NAME",
    "PROBLEM_NAME",
    "SKIPPED",
    "UNOBSERVED",
    "ConvertedLog",
    "DatasetEntry",
    "DsjsonDeclaration",
    "EstimatorInputs",
    "EstimatorPolicy",
    "FittedPolicy",
    "RegressorRewards",
    "TrainingRows",
    "action_dist",
    "classifier_policy",
    "convert_dsjson",
    "from_feedback",
    "load_feedback",
    "log_certificate",
    "read_dataset",
    "read_dsjson",
    "record_fit",
    "regressor_policy",
    "save_feedback",
    "to_feedback",
    "training_rows",
    "write_converted",
]
