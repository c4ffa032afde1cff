"""The rules for findings that concern one fuser or frontend, as the rules for all
runs use them."""

from __future__ import annotations

from fusiondoc.diagnosis.of_fusers import (
    inductor_findings,
    nvfuser_failures,
    te_findings,
)
from fusiondoc.diagnosis.of_fusers.inductor_fault import (
    compiler_at_fault as compiler_at_fault,
)
from fusiondoc.diagnosis.of_fusers.inductor_fault import (
    logged_failure as logged_failure,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_alone import (
    errors_of_stand_alone as errors_of_stand_alone,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_alone import (
    of_other_tools as of_other_tools,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_environment import (
    bad_dump_option as bad_dump_option,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_environment import (
    fuser_gone as fuser_gone,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_fallbacks import (
    error_in_words as error_in_words,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_fallbacks import (
    remedy_for_fallback as remedy_for_fallback,
)
from fusiondoc.diagnosis.of_fusers.nvfuser_fallbacks import (
    with_errors as with_errors,
)

OF_GROUPS = nvfuser_failures.SHAPES
"""Failures beside the groups of a plan of TorchScript."""
OF_TE = te_findings.RULES
COMPILED_LOG = inductor_findings.ALL_TEXTS
"""How to record the work of torch.compile."""
OF_COMPILED = inductor_findings.RULES
