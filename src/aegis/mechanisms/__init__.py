"""Learnable mechanisms: feature maps, Normal-Inverse-Gamma posteriors, tables, and the factorised belief over all of them."""

from aegis.mechanisms.base import FeatureMap, Mechanism, MechanismDraw, MechanismState
from aegis.mechanisms.belief import (
    Belief,
    Theta,
    availability_name,
    build_belief,
    expected_best,
    predict_open_actions,
    predict_open_probabilities,
)
from aegis.mechanisms.cell_tables import Cells
from aegis.mechanisms.encoding import Encoder, Scaling, action_scalings, fit_scalings, mechanism_rows
from aegis.mechanisms.features import FEATURES, Linear, Polynomial
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.model_selection import select_models, tune, tune_rewards
from aegis.mechanisms.model_settings import MODELS, MOST_INPUTS, TUNABLE, TUNED, ModelSettings, Tuned
from aegis.mechanisms.normal_inverse_gamma import NIG, Draw
from aegis.mechanisms.regression import Regression, RegressionDraw
from aegis.mechanisms.reward_models import LevelRewards
from aegis.mechanisms.run_stacks import FourierStack, StackedBelief, StackedDraw, StackedNIG, StackedRegression, has_equal_counts
from aegis.mechanisms.serialisation import MECHANISM_CLASSES, Packed, pack_value, unpack_value

__all__ = [
    "FEATURES",
    "MECHANISM_CLASSES",
    "MODELS",
    "MOST_INPUTS",
    "NIG",
    "TUNABLE",
    "TUNED",
    "Belief",
    "Cells",
    "Draw",
    "Encoder",
    "FeatureMap",
    "Fourier",
    "FourierStack",
    "LevelRewards",
    "Linear",
    "Mechanism",
    "MechanismDraw",
    "MechanismState",
    "ModelSettings",
    "Packed",
    "Polynomial",
    "Regression",
    "RegressionDraw",
    "Scaling",
    "StackedBelief",
    "StackedDraw",
    "StackedNIG",
    "StackedRegression",
    "Theta",
    "Tuned",
    "action_scalings",
    "availability_name",
    "build_belief",
    "expected_best",
    "fit_scalings",
    "has_equal_counts",
    "mechanism_rows",
    "pack_value",
    "predict_open_actions",
    "predict_open_probabilities",
    "select_models",
    "tune",
    "tune_rewards",
    "unpack_value",
]
