"""Requests to a Kubernetes API server and watches on it, through the official client `kubernetes`.

Answers are taken as the JSON that the server sends, so that one client serves old and new servers: it has no models of
interfaces that a server of its age offers (`policy/v1beta1`) or lacks.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deployment.adapter import ActionRefusedError
from deployment.reading import Entry, ProtocolError, parse_json
from envs.types import MurmurationError, Seconds, as_line

GONE, CONFLICT, MISSING = 410, 409, 404
WATCH_TIME: Seconds = 300.0  # after which the server ends a watch, which is then taken up where it ended
LONGEST_PAUSE: Seconds = 5.0  # between two tries to reach a server that does not answer
MERGE = "application/strategic-merge-patch+json"
Query = Mapping[str, str | int]


class ApiRefusedError(ActionRefusedError):
    """The API server refused a request, with a status of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi:
    """An API server, as a kubeconfig names it.

    Args:
        kubeconfig: file with the server's address and the rights to use it.
        patience: seconds after which a request counts as refused.

    Raises:
        MurmurationError: the client is not installed, or the file cannot be read.
    """

    def __init__(self, kubeconfig: Path, patience: Seconds = 20.0) -> None:
        try:
            from kubernetes import client, config
        except ImportError:
            raise MurmurationError("kubernetes: not installed; pip install 'murmuration[kubernetes]'") from None
        chosen = client.Configuration()
        chosen.retries = False  # the callers look again
        try:
            config.load_kube_config(str(kubeconfig), client_configuration=chosen)
        except (config.ConfigException, OSError) as error:
            raise MurmurationError(f"kubeconfig={as_line(str(kubeconfig))}: {as_line(str(error))}") from None
        self._client, self._patience = client.ApiClient(chosen), patience
        self._failure: type[Exception] = client.ApiException

    def request(self, method: str, path: str, body: object = None, *, query: Query | None = None) -> Entry:
        """Return the JSON that the server answers.

        Raises:
            ApiRefusedError: the server refuses.
            ActionRefusedError: it does not answer, or with something else.
        """
        answer = self._send(method, path, body, query or {}, self._patience)
        try:
            return parse_json(answer.data, f"{method} {path}", tolerant=True)
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None

    def stream(self, path: str, query: Query) -> Iterator[Entry]:
        """Yield the events of a watch until the server ends it.

        Raises:
            ActionRefusedError: as for `request`; also where the connection breaks.
        """
        answer = self._send("GET", path, None, {**query, "watch": "true"}, WATCH_TIME + self._patience)
        try:
            rest = b""
            for part in answer.stream(amt=None, decode_content=False):
                *lines, rest = (rest + part).split(b"\n")
                yield from (parse_json(line, f"watch {path}", tolerant=True) for line in lines if line)
        except ProtocolError as error:
            raise ActionRefusedError(str(error)) from None
        except Exception as error:  # urllib3 has a class of its own for each way in which a connection breaks
            raise ActionRefusedError(f"watch {path}: {as_line(str(error))[:200]}") from None
        finally:
            answer.close()

    def _send(self, method: str, path: str, body: object, query: Query, patience: Seconds) -> Any:
        headers = {"Accept": "application/json", "Content-Type": MERGE if method == "PATCH" else "application/json"}
        try:
            answer = self._client.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _preload_content=False,
                _request_timeout=(self._patience, patience),
            )
            if query.get("watch") is None:
                answer.read(cache_content=True)
        except self._failure as error:
            status = int(getattr(error, "status", 0) or 0)
            raise ApiRefusedError(f"{method} {path}: {status} {_reason(error)}", status) from None
        except Exception as error:
            raise ActionRefusedError(f"{method} {path}: no answer ({as_line(str(error))[:200]})") from None
        return answer


def _reason(error: Exception) -> str:
    """Return why a server refuses, in one line."""
    body = getattr(error, "body", None) or getattr(error, "reason", "")
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    try:
        return as_line(str(json.loads(text)["message"])[:300])
    except (ValueError, LookupError, TypeError):
        return as_line(" ".join(text.split())[:300])


class ResourceWatch:
    """Knows all objects of a path, such as `/api/v1/pods`: one list, then the changes that the server tells.

    A watch that ends is taken up where it ended; where the server has forgotten that (410), all is listed again.

    Args:
        api: to ask.
        path: of the objects.
        patience: seconds for which `items` waits for the first list.
        changed: called from a thread of its own after each change.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        patience: Seconds = 20.0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._api, self._path, self._patience, self._changed = api, path, patience, changed
        self._items: dict[str, Entry] = {}
        self._version, self._why_not = "", f"{path}: no answer yet"
        self._lock, self._listed = threading.Lock(), threading.Event()
        self.num_lists = 0
        threading.Thread(target=self._follow, daemon=True, name=f"watch {path}").start()

    def items(self) -> list[Entry]:
        """Return all objects as they were told last.

        Raises:
            ActionRefusedError: the server does not answer.
        """
        self._listed.wait(self._patience)
        with self._lock:
            if self._why_not:
                raise ActionRefusedError(self._why_not)
            return list(self._items.values())

    def _follow(self) -> None:
        pause = 0.1
        while True:
            try:
                if not self._version:
                    self._list()
                self._watch()
                pause = 0.1
            except (ActionRefusedError, ProtocolError) as error:
                if isinstance(error, ApiRefusedError) and error.status == GONE:
                    self._version = ""
                    continue
                with self._lock:
                    self._why_not = str(error)
                self._version = ""  # the server may come back with another past
                time.sleep(pause)
                pause = min(2.0 * pause, LONGEST_PAUSE)

    def _list(self) -> None:
        answer = self._api.request("GET", self._path)
        found = {_key(each): each for each in answer.field("items").items()}
        self._version = answer.field("metadata").field("resourceVersion").text()
        with self._lock:
            self._items, self._why_not = found, ""
        self.num_lists += 1
        self._listed.set()
        self._changed()

    def _watch(self) -> None:
        query: Query = {
            "resourceVersion": self._version,
            "timeoutSeconds": int(WATCH_TIME),
            "allowWatchBookmarks": "true",
        }
        for event in self._api.stream(self._path, query):
            what, found = event.field("type").text(), event.field("object")
            if what == "ERROR":
                code = found.optional("code")
                raise ApiRefusedError(f"{self._path}: the watch ended", code.whole(0, 999) if code else 0)
            self._version = found.field("metadata").field("resourceVersion").text()
            if what == "BOOKMARK":
                continue
            with self._lock:
                if what == "DELETED":
                    self._items.pop(_key(found), None)
                else:
                    self._items[_key(found)] = found
            self._changed()


def _key(found: Entry) -> str:
    return found.field("metadata").field("uid").text()
