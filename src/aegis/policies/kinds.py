"""The table of policies: every kind that a policy folder may hold without further rooms."""

from __future__ import annotations

from aegis.policies.capped import Capped
from aegis.policies.columns import TargetColumns
from aegis.policies.floored import Floored
from aegis.policies.full_columns import FullColumns
from aegis.policies.functions import Function
from aegis.policies.hybrid import Hybrid
from aegis.policies.incumbent import StatedIncumbent
from aegis.policies.legacy import Legacy
from aegis.policies.logged import Logged
from aegis.policies.mixture import Mixture
from aegis.policies.state import Storable

POLICIES: dict[str, type[Storable]] = {
    "legacy": Legacy,
    "logged": Logged,
    "incumbent": StatedIncumbent,
    "mixture": Mixture,
    "hybrid": Hybrid,
    "capped": Capped,
    "floored": Floored,
    "columns": TargetColumns,
    "full columns": FullColumns,
    "function": Function,
}
