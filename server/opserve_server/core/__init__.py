"""The transport-free core: sessions, memory, executors, streams and events on one event loop."""
