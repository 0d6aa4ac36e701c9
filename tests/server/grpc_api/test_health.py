"""grpc.health.v1 follows the devices; reflection names every service."""

import logging
from dataclasses import replace
from typing import Any, cast
from unittest.mock import Mock

import grpc
import pytest
from grpc_health.v1.health_pb2 import (
    HealthCheckRequest,
    HealthCheckResponse,
    HealthListRequest,
)
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from opserve_server.grpc_api.health import Health
from server.recording import DEVICE, RecordingService

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


async def check(channel: grpc.aio.Channel, service: str) -> int:
    stub: Any = HealthStub(channel)  # without types
    response: Any = await stub.Check(HealthCheckRequest(service=service))
    return int(response.status)


async def test_a_pool_serves_while_any_of_its_devices_is_ready(
    channel: grpc.aio.Channel, service: RecordingService, health: Health
) -> None:
    service.devices = [DEVICE, replace(DEVICE, name="ascend910b-1", ready=False)]
    health.update()
    assert await check(channel, "ascend910b") == SERVING
    assert await check(channel, "") == SERVING


async def test_a_service_without_a_ready_device_does_not_serve(
    channel: grpc.aio.Channel, service: RecordingService, health: Health
) -> None:
    service.devices = [replace(DEVICE, ready=False), replace(DEVICE, profile="other")]
    health.update()
    assert await check(channel, "ascend910b") == NOT_SERVING
    assert await check(channel, "other") == SERVING
    assert await check(channel, "") == NOT_SERVING


async def test_a_draining_service_stays_not_serving(
    channel: grpc.aio.Channel, health: Health
) -> None:
    health.drain()
    health.update()
    assert await check(channel, "") == NOT_SERVING
    assert await check(channel, "ascend910b") == NOT_SERVING


async def test_all_pools_are_listed(
    channel: grpc.aio.Channel, service: RecordingService, health: Health
) -> None:
    service.devices = [DEVICE, replace(DEVICE, profile="other", ready=False)]
    health.update()
    stub: Any = HealthStub(channel)
    statuses = (await stub.List(HealthListRequest())).statuses
    assert {name: statuses[name].status for name in statuses} == {
        "": NOT_SERVING,
        "ascend910b": SERVING,
        "other": NOT_SERVING,
    }


async def test_watchers_are_notified_of_each_change(
    channel: grpc.aio.Channel, service: RecordingService, health: Health
) -> None:
    stub: Any = HealthStub(channel)
    watch = stub.Watch(HealthCheckRequest(service="other"))
    assert (await watch.read()).status == HealthCheckResponse.SERVICE_UNKNOWN
    health.update()
    service.devices = [DEVICE, replace(DEVICE, profile="other")]
    health.update()
    assert (await watch.read()).status == SERVING
    health.drain()
    assert (await watch.read()).status == NOT_SERVING
    assert await watch.read() is grpc.aio.EOF


async def test_a_drain_is_reported_although_another_report_is_pending(
    service: RecordingService, health: Health
) -> None:
    service.devices = [DEVICE]
    health.update()
    watch = health.Watch(HealthCheckRequest(), Mock())
    assert (await anext(watch)).status == SERVING
    health.drain()
    assert [answer.status async for answer in watch] == [NOT_SERVING]


async def test_watchers_do_not_delay_the_end_of_a_service_that_did_not_serve(
    channel: grpc.aio.Channel, service: RecordingService, health: Health
) -> None:
    service.devices = [replace(DEVICE, ready=False)]
    health.update()
    stub: Any = HealthStub(channel)
    watch = stub.Watch(HealthCheckRequest())
    assert (await watch.read()).status == NOT_SERVING
    health.drain()
    assert await watch.read() is grpc.aio.EOF


@pytest.mark.parametrize("kind", ["Check", "List", "Watch"])
async def test_bytes_that_are_no_message_are_the_callers_fault(
    channel: grpc.aio.Channel, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made: Any = channel
    call = made.unary_stream(f"/grpc.health.v1.Health/{kind}")(b"\x0a\xff\xff\xff\xff\x0f")
    with caplog.at_level(logging.WARNING), pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caplog.records == []


async def test_an_unknown_pool_is_not_found(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(channel, "nobody")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_names_every_service(channel: grpc.aio.Channel) -> None:
    stub: Any = ServerReflectionStub(cast("Any", channel))  # its stubs have blocking channels alone
    call = stub.ServerReflectionInfo(iter([ServerReflectionRequest(list_services="")]))
    responses: list[Any] = [response async for response in call]
    assert {found.name for found in responses[0].list_services_response.service} == {
        *(
            f"opserve.v1.{name}Service"
            for name in (
                *("Session", "Memory", "Operator", "Stream", "Event", "Command"),
                *("Usage", "Watch", "Admin", "Conformance"),
            )
        ),
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
    }
