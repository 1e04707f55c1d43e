"""The pages of docs/reference are as the code says."""

from goqueue.model.config import HttpConfig, KafkaConfig
from goqueue.queue.settings import QueueSettings
from tools import reference


def test_reference_pages_are_current():
    stale = [
        name
        for name, text in reference.pages().items()
        if not (reference.PAGES / name).exists()
        or (reference.PAGES / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, f"`make docs` writes docs/reference again: {', '.join(stale)}"


def test_every_setting_has_a_text():
    for kind in (QueueSettings, KafkaConfig, HttpConfig):
        assert set(reference.field_texts(kind)) == set(kind.__struct_fields__)
