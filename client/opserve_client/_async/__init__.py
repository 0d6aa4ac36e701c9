"""The client. Its asyncio form is the source, client/generate_sync.py makes the blocking one."""
