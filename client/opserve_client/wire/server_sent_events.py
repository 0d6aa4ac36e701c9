"""Server-sent events: the entries of a stream, line by line."""

import json

from opserve.v1.stream_service_pb2 import WatchStreamResponse
from opserve_client.errors import malformed_answer
from opserve_client.wire.json_messages import from_json


class ServerSentEvents:
    """Parser of server-sent events."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def feed(self, line: str) -> WatchStreamResponse | None:
        """Parses a line without its end; an empty line returns the message that it completes.

        Raises:
            OpserveError: The event cannot be parsed.
        """
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "event" not in fields:
            return None  # a comment, which the service sends while there are no events
        try:
            members = {fields["event"]: json.loads(fields["data"])}
            found = from_json(members, WatchStreamResponse)
        except (KeyError, ValueError) as error:
            raise malformed_answer(f"the answer has a malformed event: {error}") from error
        # A later service may send events of other kinds.
        return found if found.WhichOneof("news") else None
