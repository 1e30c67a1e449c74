"""The text of a program, as torch_xla 2.9.0 prints it."""


def test_a_program_is_written_as_the_real_package_writes_it():
    import torch
    import torch_xla

    a = torch.ones(4, 4).to(torch_xla.device())
    b = (a.exp() * 2.5).sum(1)
    assert torch_xla._XLAC._get_xla_tensors_text([b]) == (
        "IR {\n"
        "  %0 = f32[4,4]{1,0} xla::device_data(), xla_shape=f32[4,4]{1,0}\n"
        "  %1 = f32[] xla::device_data(), xla_shape=f32[]\n"
        "  %2 = f32[4,4]{1,0} aten::exp(%0), xla_shape=f32[4,4]{1,0}\n"
        "  %3 = f32[4,4]{1,0} aten::mul(%2, %1), xla_shape=f32[4,4]{1,0}\n"
        "  %4 = f32[4]{0} aten::sum(%3), xla_shape=f32[4]{0}, ROOT=0\n"
        "}\n"
    )
    values, places = a.sort()
    text = torch_xla._XLAC._get_xla_tensors_text([places, values.int()])
    assert "(f32[4,4]{1,0}, s64[4,4]{1,0}) aten::sort(" in text
    assert "s32[4,4]{1,0} aten::copy(%" in text
    torch_xla.sync()
    assert torch_xla._XLAC._get_xla_tensors_text([b]) == "IR {\n}\n"
