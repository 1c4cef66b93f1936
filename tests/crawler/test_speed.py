from __future__ import annotations

import pytest
from scrapy.settings import Settings

from crawler import settings as project_settings
from crawler.speed import set_speed


def settings_for(*hosts: str, **cmdline: str) -> Settings:
    settings = Settings()
    settings.setmodule(project_settings)
    settings.setdict(cmdline, priority="cmdline")
    set_speed(settings, hosts)
    return settings


def test_a_foreign_host_is_spared() -> None:
    settings = settings_for("example.com", "localhost")
    assert settings.getfloat("DOWNLOAD_DELAY") >= 0.5
    assert settings.getbool("AUTOTHROTTLE_ENABLED")
    assert settings.getbool("ROBOTSTXT_OBEY")
    assert settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") <= 2
    assert settings.getint("CONCURRENT_REQUESTS") == 4


def test_this_machine_is_not_spared() -> None:
    settings = settings_for("localhost:8000", "127.0.0.1")
    assert settings.getfloat("DOWNLOAD_DELAY") == 0
    assert not settings.getbool("AUTOTHROTTLE_ENABLED")
    assert settings.getbool("ROBOTSTXT_OBEY")


@pytest.mark.parametrize("host", ["localhost", "example.com"])
def test_the_command_line_wins(host: str) -> None:
    settings = settings_for(host, DOWNLOAD_DELAY="7", CONCURRENT_REQUESTS="99")
    assert settings.getfloat("DOWNLOAD_DELAY") == 7
    assert settings.getint("CONCURRENT_REQUESTS") == 99
