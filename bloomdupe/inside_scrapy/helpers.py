"""Functions and classes of Scrapy that are not documented, and may be missing.

Import them from here: then every module of bloomdupe can be imported, whichever of them
this Scrapy lacks. In the place of one that is missing there is a class that cannot be
made an object: whoever tries gets :class:`~bloomdupe.errors.EngineError`. They are
listed in :mod:`bloomdupe.inside_scrapy.private_names`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from bloomdupe.inside_scrapy.private_names import NEEDED, OF_PIPELINES, found, refusal

if TYPE_CHECKING:
    from scrapy.extensions.postprocessing import (
        PostProcessingManager as PostProcessingManager,
    )
    from scrapy.pipelines.files import FSFilesStore as FSFilesStore
    from scrapy.utils.conf import (
        feed_complete_default_values_from_settings as feed_complete_default_values_from_settings,  # noqa: E501
    )
    from scrapy.utils.conf import (
        feed_process_params_from_cli as feed_process_params_from_cli,
    )
    from scrapy.utils.defer import aiter_errback as aiter_errback
    from scrapy.utils.defer import iter_errback as iter_errback
    from scrapy.utils.response import get_base_url as get_base_url
    from scrapy.utils.spider import DefaultSpider as DefaultSpider

_PATHS = {path.rpartition(".")[2]: path for path in (*NEEDED, *OF_PIPELINES)}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of them
    if name not in _PATHS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = _PATHS[name]
    value = found(path)
    return _stand_in(path) if value is None else value


def _stand_in(path: str) -> type:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise refusal(path)

    return type(path.rpartition(".")[2], (), {"__new__": refuse})
