#!/usr/bin/env python3
"""Talks to Codex over A2A with the official SDK (pip install a2a-sdk==1.3.0), as any agent would.

    codex-bridge peers add reviewer > token          # on the machine of the bridge
    python examples/a2a_client.py http://127.0.0.1:4141 --token-file token

It reads the card, asks and waits, asks and listens while the answer is written, goes on in the same context, cancels,
and is told by a push notification. Each step prints one line; the first that does not go as it should ends the script
with an error. For the notification the bridge must be allowed to call this machine: `a2a.allow_origins` in its
configuration has to name http://127.0.0.1:PORT of --receiver.
"""

import argparse
import asyncio
import http.server
import json
import pathlib
import queue
import threading
import uuid

import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)

PATIENCE = 60.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="where the bridge listens")
    parser.add_argument("--token-file", type=pathlib.Path, help="what `codex-bridge peers add` printed")
    parser.add_argument("--protocol", choices=["1.0", "0.3"], default="1.0", help="the version of A2A to speak")
    parser.add_argument("--binding", choices=["JSONRPC", "HTTP+JSON"], default="JSONRPC")
    parser.add_argument("--ask", default="In one sentence: what are you?")
    parser.add_argument("--ask-streaming", default="Count from one to twenty, in words.")
    parser.add_argument("--ask-again", default="What did I ask you before?")
    parser.add_argument("--ask-long", default="Write a long story about a lighthouse.")
    parser.add_argument("--receiver", type=int, metavar="PORT", help="be told by a push notification at this port")
    return parser.parse_args()


def message(text, context_id="", task_id=""):
    return Message(
        message_id=str(uuid.uuid4()),
        role=Role.ROLE_USER,
        parts=[Part(text=text)],
        context_id=context_id,
        task_id=task_id,
    )


def answer_of(task):
    return "\n".join(get_artifact_text(artifact) for artifact in task.artifacts)


def state_of(task):
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_").lower()


def one_of_version(card, version, binding):
    """The SDK takes the best interface of a card; what is not there can't be taken."""
    kept = [i for i in card.supported_interfaces if i.protocol_version == version and i.protocol_binding == binding]
    if not kept:
        raise SystemExit(f"the card offers no {binding} of A2A {version}")
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)
    return card


async def send(client, text, context_id=""):
    """Waits for the whole task."""
    request = SendMessageRequest(message=message(text, context_id))
    last = None
    async for event in client.send_message(request):
        last = event
    if last is None or not last.HasField("task"):
        raise SystemExit(f"no task came of it: {last}")
    return last.task


async def stream(client, text):
    """Hears the answer while it is written; what was heard must be what the task has in the end."""
    heard, states, task_id = {}, [], ""
    async for event in client.send_message(SendMessageRequest(message=message(text))):
        if event.HasField("task"):
            task_id = event.task.id
            states.append(state_of(event.task))
            heard = {a.artifact_id: get_artifact_text(a) for a in event.task.artifacts}
        elif event.HasField("status_update"):
            states.append(state_of(event.status_update))
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            said = get_artifact_text(update.artifact, "")
            known = heard.get(update.artifact.artifact_id, "") if update.append else ""
            heard[update.artifact.artifact_id] = known + said
    task = await client.get_task(GetTaskRequest(id=task_id))
    kept = {a.artifact_id: get_artifact_text(a) for a in task.artifacts}
    if heard != kept:
        raise SystemExit(f"heard {heard}, but the task has {kept}")
    return task, states


async def cancel(client, listener, text):
    """Begins something long, and stops it when it is under way."""
    request = SendMessageRequest(
        message=message(text), configuration=SendMessageConfiguration(return_immediately=True)
    )
    async for event in client.send_message(request):
        task = event.task
    async for event in listener.subscribe(SubscribeToTaskRequest(id=task.id)):
        now = event.status_update if event.HasField("status_update") else event.task
        if now.status.state == TaskState.TASK_STATE_WORKING:
            break
    return await client.cancel_task(CancelTaskRequest(id=task.id))


class Receiver:
    """Hears push notifications."""

    def __init__(self, port):
        self.token, self.heard = str(uuid.uuid4()), queue.Queue()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("x-a2a-notification-token") == receiver.token:
                    receiver.heard.put(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def until_over(self, task_id):
        while True:
            heard = self.heard.get(timeout=PATIENCE)
            said = heard.get("task") or heard.get("statusUpdate") or heard.get("artifactUpdate") or heard
            state = said.get("status", {}).get("state", "")
            over = state.removeprefix("TASK_STATE_").lower()
            if (said.get("taskId") or said.get("id")) == task_id and over in ("completed", "failed"):
                return over


async def push(client, text, port):
    receiver = Receiver(port)
    request = SendMessageRequest(
        message=message(text),
        configuration=SendMessageConfiguration(
            return_immediately=True,
            task_push_notification_config=TaskPushNotificationConfig(
                url=receiver.url, token=receiver.token
            ),
        ),
    )
    async for event in client.send_message(request):
        task = event.task
    state = await asyncio.to_thread(receiver.until_over, task.id)
    receiver.server.shutdown()
    return state


async def main():
    args = arguments()
    headers = {}
    if args.token_file:
        headers["Authorization"] = f"Bearer {args.token_file.read_text().strip()}"
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as http_client:
        card = await A2ACardResolver(http_client, args.url).get_agent_card()
        card = one_of_version(card, args.protocol, args.binding)
        print(f"card: {card.name} {card.version}, A2A {args.protocol} over {args.binding}")

        def client_of(streaming):
            bindings = [args.binding]
            config = ClientConfig(
                httpx_client=http_client, streaming=streaming, supported_protocol_bindings=bindings
            )
            return ClientFactory(config).create(card)

        waiting, listening = client_of(False), client_of(True)
        task = await send(waiting, args.ask)
        print(f"send: {state_of(task)}: {answer_of(task)}")
        task, states = await stream(listening, args.ask_streaming)
        print(f"stream: {' '.join(dict.fromkeys(states))}: {answer_of(task)}")
        task = await send(waiting, args.ask_again, task.context_id)
        print(f"again: {state_of(task)}: {answer_of(task)}")
        task = await cancel(waiting, listening, args.ask_long)
        print(f"cancel: {state_of(task)}")
        if args.receiver:
            print(f"push: {await push(waiting, args.ask, args.receiver)}")


if __name__ == "__main__":
    asyncio.run(main())
