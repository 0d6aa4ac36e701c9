"""A hypothesis state machine over quotas: every charge is counted anew after every step."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from opserve_kernels.status import Status
from opserve_server.core.errors import OpserveError, QuotaExceeded, Unauthenticated
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.session import Session
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.fakes import KIB, LIMITS, make_service
from simulation.charges import (
    HELD,
    BreakingDevice,
    Lease,
    Upload,
    check_nothing_is_charged,
    held_by,
)
from simulation.choices import WHICH, one_of, pick
from simulation.model import image_call
from simulation.virtual_time import VirtualTimeLoop

NAMES = ("ours", "theirs")
MANY = 1000
EACH = (*HELD, Resource.BYTES_IN_FLIGHT)
TIGHT = Quota(
    device_memory_bytes=300 * KIB,
    sessions=2,
    buffers=6,
    executors=4,
    streams=4,
    queued_entries=4,
    bytes_in_flight=3 * KIB,
)
Answer = TypeVar("Answer")


def principal_of(name: str) -> Principal:
    return Principal(tenant=name, name="test", scopes=frozenset({Scope.OPERATE}))


async def turns(count: int) -> None:
    """Gives others some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


class AccountMachine(RuleBasedStateMachine):
    """Two tenants on one device that ends calls on a command of the machine."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.device = BreakingDevice(auto=False)
        self.capacity = self.device.slabs.free_bytes
        self.quotas: dict[str, Quota] = dict.fromkeys(NAMES, TIGHT)
        self.leases: list[Lease] = []
        self.seen: list[Session] = []
        self.uploads: list[Upload] = []
        self.requests = 0
        self.service: Service

    @initialize()
    def start(self) -> None:
        async def make() -> Service:
            return make_service(self.device)

        self.service = self.do(make())
        self.tell_tenants()

    @override
    def teardown(self) -> None:
        for upload in self.uploads:
            upload.task.cancel()
        while self.device.held:
            self.device.end(self.device.held[-1])
            self.settle()
        self.do(self.service.stop())
        self.settle()
        self.loop.close()
        self.device.slabs.close()
        check_nothing_is_charged(self.service)
        assert self.device.slabs.free_bytes == self.capacity

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        self.do(turns(12))
        self.leases = [lease for lease in self.leases if not lease.session.closed]

    def tell_tenants(self, *, disabled: str = "") -> None:
        async def tell() -> None:
            self.service.renew_tenants(
                Tenant(name=name, quota=quota, disabled=name == disabled)
                for name, quota in self.quotas.items()
            )

        self.do(tell())
        self.settle()

    def ask(self, lease: Lease, command: c.Command, **others: str) -> Any:
        """The result of a command; None where it is refused, which changes nothing."""
        before = self.counted(lease.session.tenant)
        try:
            work = self.service.run(lease.principal, lease.session.name, command, **others)
            answer = self.do(work)
        except QuotaExceeded as refused:
            resource = Resource(refused.parameter)
            self.check_refusal(lease.session.tenant, before[resource], refused)
        except (OpserveError, OSError):
            pass
        else:
            self.check_limits(lease.session.tenant, before)
            return answer
        finally:
            self.settle()
        return None

    def check_limits(self, tenant: str, before: Counter[Resource]) -> None:
        for resource, count in self.counted(tenant).items():
            limit = getattr(self.quotas[tenant], resource)
            granted = count > before[resource] and limit is not None and count > limit
            assert not granted, f"{resource}: {count} beyond {limit}"

    def check_refusal(self, tenant: str, counted: int, refused: QuotaExceeded) -> None:
        limit = getattr(self.quotas[tenant], refused.parameter)
        assert (refused.tenant, refused.limit) == (tenant, limit)
        assert refused.use <= counted, "more was counted than there was"
        assert refused.use + float(refused.given) > limit, "there was room"
        if refused.parameter == Resource.DEVICE_MEMORY:
            live = [lease.session for lease in self.leases if lease.session.tenant == tenant]
            spaces = [space for session in live for space in session.memory._slabs.values()]
            assert not any(space.is_empty for space in spaces), "an unused slab is in the way"

    def counted(self, tenant: str) -> Counter[Resource]:
        total = Counter[Resource]()
        for session in self.seen:
            if session.tenant == tenant:
                total.update(held_by(session))
        total[Resource.BYTES_IN_FLIGHT] = sum(
            upload.size_bytes
            for upload in self.uploads
            if upload.tenant == tenant and upload.begun and not upload.task.done()
        )
        return total

    def lease(self, which: int, having: str = "streams") -> Lease:
        return pick([lease for lease in self.leases if getattr(lease, having)], which)

    # What must hold after every step

    @invariant()
    def use_is_what_the_tables_hold(self) -> None:
        for account in self.service.accounts:
            counted = self.counted(account.tenant.name)
            for resource in EACH:
                use, held = account.use(resource), counted[resource]
                assert use == held, f"{resource}: charged {use}, counted {held}"

    @invariant()
    def the_device_lacks_what_is_charged(self) -> None:
        charged = sum(account.use(Resource.DEVICE_MEMORY) for account in self.service.accounts)
        taken = self.capacity - self.device.slabs.free_bytes
        assert charged == taken, f"device memory: charged {charged}, taken {taken}"

    @precondition(lambda self: self.leases)
    @rule(name=one_of(*NAMES), resource=one_of(*EACH), share=one_of(1, 2, 3, MANY))
    def a_limit_changes(self, name: str, resource: Resource, share: int) -> None:
        limit: int = getattr(TIGHT, resource)
        fields = {other: getattr(self.quotas[name], other) for other in Resource}
        fields[resource] = None if share == MANY else limit * share // 2
        self.quotas[name] = Quota(**fields)
        self.tell_tenants()

    @precondition(lambda self: len(self.leases) > 1)
    @rule(name=one_of(*NAMES))
    def a_tenant_is_disabled_and_comes_back(self, name: str) -> None:
        self.tell_tenants(disabled=name)
        assert not [lease for lease in self.leases if lease.session.tenant == name]
        with pytest.raises(Unauthenticated):
            self.do(self.service.open_session(principal_of(name)))
        self.tell_tenants()

    @rule(name=one_of(*NAMES), asked=one_of(0, 9, 9, 9), retried=st.booleans())
    def open_session(self, name: str, asked: int, retried: bool) -> None:
        """Opens one; its client may disconnect before the answer, and may repeat the request."""
        self.requests += 1
        principal = principal_of(name)

        async def open_one() -> None:
            request_id = f"open {self.requests}" if retried else ""
            for _ in range(2 if retried else 1):
                opening = asyncio.create_task(
                    self.service.open_session(principal, request_id=request_id)
                )
                await turns(asked)
                opening.cancel()
                with suppress(asyncio.CancelledError, OpserveError):
                    await opening

        self.do(open_one())
        self.settle()
        for session in list(self.service._sessions._sessions.values()):
            if session not in self.seen:
                self.seen.append(session)
                self.leases.append(Lease(principal, session))
                self.plan_call(self.leases[-1], repeatable=True)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, end=one_of("closed", "lease over", "both at once"))
    def sessions_end(self, which: int, end: str) -> None:
        lease = self.lease(which)

        async def close() -> None:
            if end != "lease over":
                work = self.service.close_session(lease.principal, lease.session.name)
                asyncio.create_task(work).add_done_callback(lambda task: task.exception())
            if end != "closed":
                await asyncio.sleep(LIMITS.lease_default_s + 1)

        self.do(close())
        self.settle()

    # What sessions hold

    @precondition(lambda self: self.leases)
    @rule(
        which=WHICH,
        size=one_of(1, 60 * KIB, 140 * KIB, 160 * KIB),
        fate=one_of("kept", "freed", "breaks", "retried"),
    )
    def allocate(self, which: int, size: int, fate: str) -> None:
        lease = self.lease(which)
        self.requests += 1
        others = {"request_id": f"allocate {self.requests}"} if fate == "retried" else {}
        self.device.breaks = fate == "breaks"
        made = self.ask(lease, c.Allocate(size_bytes=size), **others)
        self.device.breaks = False
        if made is None:
            return
        if fate == "freed":
            self.ask(lease, c.Free(buffer=made.buffer))
            return
        lease.buffers.append(made.buffer)
        if fate == "retried":
            assert self.ask(lease, c.Allocate(size_bytes=size), **others) == made

    @precondition(lambda self: any(lease.buffers for lease in self.leases))
    @rule(which=WHICH, buffer_index=WHICH)
    def free(self, which: int, buffer_index: int) -> None:
        lease = self.lease(which, "buffers")
        buffer = pick(lease.buffers, buffer_index)
        lease.buffers.remove(buffer)
        self.ask(lease, c.Free(buffer=buffer))

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, repeatable=st.booleans())
    def plan(self, which: int, repeatable: bool) -> None:
        self.plan_call(self.lease(which), repeatable=repeatable)

    def plan_call(self, lease: Lease, *, repeatable: bool) -> None:
        asked = [self.ask(lease, c.Allocate(size_bytes=KIB)) for _ in range(2)]
        made = [answer.buffer for answer in asked if answer is not None]
        lease.buffers += made
        if len(made) < len(asked):
            return
        arguments = image_call(*made)
        command = c.GetWorkspaceSize(operator="im2col_backward", arguments=arguments)
        planned = self.ask(lease, command)
        if planned is not None:
            lease.executors.append(planned.executor)
            if repeatable:
                self.ask(lease, c.SetRepeatable(executor=planned.executor))

    @precondition(lambda self: any(lease.executors for lease in self.leases))
    @rule(
        which=WHICH,
        executor_index=WHICH,
        stream_indices=st.lists(WHICH, min_size=1, max_size=6),
        timeout_ms=one_of(None, 100),
    )
    def execute(
        self, which: int, executor_index: int, stream_indices: list[int], timeout_ms: int | None
    ) -> None:
        lease = self.lease(which, "executors")
        executor = pick(lease.executors, executor_index)
        workspace = self.ask(lease, c.Allocate(workspace_of=executor))
        if workspace is None:
            return
        for stream_index in stream_indices:
            stream = pick(lease.streams, stream_index)
            command = c.Execute(
                executor=executor,
                stream=stream,
                workspace=workspace.buffer,
                timeout_ms=timeout_ms,
            )
            self.ask(lease, command)
        self.ask(lease, c.Free(buffer=workspace.buffer))

    @precondition(lambda self: any(lease.executors for lease in self.leases))
    @rule(which=WHICH)
    def destroy_executor(self, which: int) -> None:
        lease = self.lease(which, "executors")
        self.ask(lease, c.DestroyExecutor(executor=lease.executors.pop()))

    @precondition(lambda self: self.leases)
    @rule(which=WHICH)
    def create_stream(self, which: int) -> None:
        lease = self.lease(which)
        made = self.ask(lease, c.CreateStream())
        if made is not None:
            lease.streams.append(made.stream)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, stream_index=WHICH)
    def abort_or_destroy_a_stream(self, which: int, stream_index: int) -> None:
        lease = self.lease(which)
        stream = pick(lease.streams, stream_index)

        async def end() -> None:
            abort = self.service.run(
                lease.principal, lease.session.name, c.AbortStream(stream=stream)
            )
            aborting = asyncio.create_task(abort)
            await asyncio.sleep(0)
            aborting.cancel()

        self.do(end())
        self.settle()
        if stream and not self.device.held:
            lease.streams.remove(stream)
            self.ask(lease, c.DestroyStream(stream=stream))

    @precondition(lambda self: self.device.held)
    @rule()
    def deadlines_pass(self) -> None:
        self.loop.advance(1.0)
        self.settle()

    @precondition(lambda self: self.device.held)
    @rule(fails=st.booleans())
    def the_device_ends_a_call(self, fails: bool) -> None:
        self.device.end(self.device.held[0], KernelFailed("planted") if fails else None)
        self.settle()

    @precondition(lambda self: any(lease.buffers for lease in self.leases))
    @rule(which=WHICH, buffer_index=WHICH, size=one_of(1, KIB, 2 * KIB))
    def begin_to_write(self, which: int, buffer_index: int, size: int) -> None:
        lease = self.lease(which, "buffers")
        goes_on = self.loop.create_future()

        async def chunks() -> AsyncGenerator[bytes]:
            upload.begun = True
            await goes_on
            yield bytes(size)

        writing = self.service.write(
            lease.principal,
            lease.session.name,
            buffer=pick(lease.buffers, buffer_index),
            offset=0,
            size_bytes=size,
            chunks=chunks(),
        )
        task = self.loop.create_task(writing)
        upload = Upload(lease.session.tenant, size, goes_on, task)
        self.uploads.append(upload)
        self.settle()

    @precondition(lambda self: self.uploads)
    @rule(which=WHICH, end=one_of("goes on", "breaks", "is cancelled"))
    def a_write_ends(self, which: int, end: str) -> None:
        upload = pick(self.uploads, which)
        self.uploads.remove(upload)
        if end == "goes on":
            upload.goes_on.set_result(None)
        elif end == "breaks":
            upload.goes_on.set_exception(OpserveError(Status.ACL_ERROR_RT_COPY_DATA, "planted"))
        self.settle()
        upload.task.cancel()  # it may wait for calls that use its buffer
        self.settle()
        assert upload.task.done()
