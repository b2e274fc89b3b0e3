"""Keys that begin with a name of their own: what services put before theirs, so that a leaked one is known at sight.

A row is what may follow, how much of it at the least, and the beginnings. No beginning is a word of prose or code, for
each costs a look at every text; no key here holds a sign other than those of its row.
"""

from __future__ import annotations

_HEX, _ANY, _WORD, _DOTTED = "[0-9a-fA-F]", "[A-Za-z0-9]", r"[\w-]", r"[\w.-]"
_SAMPLES = {
    _HEX: "0f1e2d3c4b5a6978" * 4,
    _ANY: ("A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6" + "S7t8U9v0W1x2Y3z4") * 2,
    _WORD: ("0f1e2d3c-4b5a" + "-6978-") * 5,
    _DOTTED: ("A1b2C3d4E5f6G7h8" + "J9k0L1m2N3p4Q5r6.") * 3,
}
Row = tuple[str, int, str]
UNBROKEN: tuple[Row, ...] = (
    (_HEX, 32, "shpat_ shpss_ shpca_ shppa_ dapi fc- p8e- lsv2_pt_ lsv2_sk_ sgp_ ATTA"),
    (_HEX, 40, "sbp_ pul- e2b_ squ_ sqp_ sqa_ shippo_live_ shippo_test_ rubygems_ sntryu_ xkeysib-"),
    (_HEX, 40, "dop_v1_ doo_v1_ dor_v1_ s-s4t2ud- s-s4t2af-"),
    (_ANY, 20, "LTAI NRAK- aio_ rnd_ fw_ phx_ nfp_ ddp_ glsa_ ATBB dckr_pat_ dckr_oat_ ops_eyJ ATATT3 ATCTT3"),
    (_ANY, 30, "npm_ hf_"),
    (_ANY, 32, "pplx- gsk_ r8_ bkua_ lin_api_ lin_oauth_ ntn_ pnu_ rdme_ ico- glc_ CLOJARS_ EZAK EZTK xai- csk- napi_"),
    (_ANY, 40, "AGE-SECRET-KEY-1 packagist_ort_ packagist_uut_ sntrys_ vcp_ vca_ vck_ vci_ vcr_"),
    (_WORD, 20, "sq0atp- sq0csp- sq0idp- GOCSPX- tvly- nvapi- pcsk_ tgp_v1_ sb_secret_"),
    (_WORD, 20, "figd_ figu_ tskey-auth- tskey-api- tskey-client- glpat- gldt- glrt- glptt-"),
    (_WORD, 20, "glcbt- glffct- glft- glimt- glagent- gloas- glsoat-"),
    (_WORD, 30, "PMAK- pat-na1- pat-na2- pat-eu1- NRII- duffel_live_ duffel_test_ fio-u- HRKU-AA CFPAT- tk-us- dnkey-"),
    (_WORD, 30, "AIza pypi- access-sandbox- access-production- fo1_ fm1r_ fm1a_ fm2_ FLWSECK_TEST- FLWSECK-"),
)  # fmt: skip
DOTTED: tuple[Row, ...] = (
    (_DOTTED, 30, "pscale_tkn_ pscale_pw_ pscale_oauth_ tfp_ hvs. hvb. hvr. dt0c01. AQ.A sk.eyJ"),
    (_DOTTED, 30, "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit."),
)  # fmt: skip


def beginnings(rows: tuple[Row, ...]) -> tuple[str, ...]:
    return tuple([one for _, _, listed in rows for one in listed.split()])


def pattern(rows: tuple[Row, ...]) -> str:
    return "(?:" + "|".join([f"(?:{_either(listed)}){signs}{{{least},}}" for signs, least, listed in rows]) + ")"


def samples(rows: tuple[Row, ...]) -> tuple[str, ...]:
    """A made-up key for each beginning."""
    return tuple([one + _SAMPLES[signs][:least] for signs, least, listed in rows for one in listed.split()])


def _either(listed: str) -> str:
    return "|".join(listed.replace(".", r"\.").split())
