"""Where bfloat16 is fast: what the device says of itself decides."""

import pytest
import torch

from grue.lm.device import multiplies_bfloat16


@pytest.mark.parametrize(
    ("able", "expected"),
    [
        ({"amx_bf16": True, "avx512_bf16": False}, True),
        ({"avx512_bf16": True}, True),
        ({"avx512_bf16": False, "avx512_f": True, "amx_tile": True}, False),
        ({}, False),
    ],
)
def test_a_cpu_with_instructions_for_it_multiplies_bfloat16(able, expected, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able, raising=False)
    assert multiplies_bfloat16(torch.device("cpu")) is expected
    assert not multiplies_bfloat16(torch.device("mps"))


def test_an_older_torch_cannot_say_and_a_gpu_speaks_for_itself(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not multiplies_bfloat16(torch.device("cpu"))
    for able in (True, False):
        # A GPU that only emulates bfloat16 is not fast in it.
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, able=able: able)
        assert multiplies_bfloat16(torch.device("cuda")) is able
