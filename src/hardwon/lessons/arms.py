"""Draw the sessions in which a measured lesson stays silent. The fallback imports this module, so keep it light."""

from __future__ import annotations

_FRACTION_BYTES = 6  # 48 bits, which a float holds exactly


def draw_fraction(secret: str, session: str, lesson_id: str) -> float:
    """Return a number from 0 to 1, always the same for a session and a lesson.

    It is the HMAC of both under a secret of this home: nobody who does not know the secret can choose a session in
    which a lesson is silent.
    """
    from hmac import digest  # imported here because it takes a cold hook 4 ms, and only measured lessons need it

    message = f"{session}\0{lesson_id}".encode("utf-8", "surrogatepass")
    code = digest(bytes.fromhex(secret), message, "sha256")
    return int.from_bytes(code[:_FRACTION_BYTES], "big") / float(1 << 8 * _FRACTION_BYTES)
