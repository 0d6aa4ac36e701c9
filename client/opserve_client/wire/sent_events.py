"""Server-sent events: news of a stream, line by line."""

import json

from opserve.v1.stream_service_pb2 import WatchStreamResponse
from opserve_client.errors import incomprehensible
from opserve_client.wire.json_messages import from_json


class SentEvents:
    """Puts lines together to events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def take_in(self, line: str) -> WatchStreamResponse | None:
        """Takes in a line without its end; the news that an empty one completes.

        Raises:
            OpserveError: The event is none of opserve's.
        """
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "event" not in fields:
            return None  # a comment is a sign of life and no more
        try:
            news = {fields["event"]: json.loads(fields["data"])}
            found = from_json(news, WatchStreamResponse)
        except (KeyError, ValueError) as error:
            raise incomprehensible(f"an event that is none of opserve's: {error}") from error
        return found if found.WhichOneof("news") else None  # a later service may tell of more
