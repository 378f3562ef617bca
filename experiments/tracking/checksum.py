"""CRC-32C, the checksum of every record of an event file; tensorboard's own takes most of the time of logging a step.

Over GF(2) a checksum is linear in the message: it is the XOR of what each byte contributes, which depends on the byte
and its distance from the end of the message. So whole blocks are looked up and combined by numpy.
"""

from functools import cache
from typing import Any

import numpy as np

POLYNOMIAL = 0x82F63B78  # Castagnoli (1993), bits reversed
BLOCK = 256  # bytes looked up at once; 256 kB of tables


def masked_crc32c(message: bytes) -> int:
    """The CRC-32C of the message, rotated right by 15 bits plus 0xA282EAD8, as the TFRecord format has it."""
    crc = crc32c(message)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(message: bytes) -> int:
    """The CRC-32C of the message (RFC 3720, appendix B.4)."""
    if len(message) < 4:
        return _bytewise(message)
    contributions, after_block = _tables()
    padding = bytes(-len(message) % BLOCK)  # zeros before it change nothing
    ones = (int.from_bytes(message[:4], "little") ^ 0xFFFFFFFF).to_bytes(4, "little")  # what the register starts with
    codes = np.frombuffer(padding + ones + message[4:], np.uint8).reshape(-1, BLOCK)
    crc = 0
    for block in np.bitwise_xor.reduce(contributions.take(codes + _OFFSETS), axis=1).tolist():
        for place in range(4):
            block ^= after_block[place][crc >> 8 * place & 0xFF]
        crc = block
    return crc ^ 0xFFFFFFFF


_OFFSETS = 256 * np.arange(BLOCK, dtype=np.int64)


def _bytewise(message: bytes) -> int:
    crc, table = 0xFFFFFFFF, _single()
    for byte in message:
        crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _single() -> Any:
    """What one byte leaves in the register (256,)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ POLYNOMIAL, table >> 1).astype(np.uint32)
    return table


@cache
def _tables() -> tuple[Any, list[list[int]]]:
    """Contributions by place in a block and byte (BLOCK, 256); a register's after one more block, by its bytes."""
    single = _single()
    rows = [single]
    for _ in range(BLOCK + 3):
        rows.append(rows[-1] >> 8 ^ single[rows[-1] & 0xFF])
    return np.stack(rows[BLOCK - 1 :: -1]), [rows[BLOCK - 1 - place].tolist() for place in range(4)]
