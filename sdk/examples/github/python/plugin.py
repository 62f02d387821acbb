"""Reads issues of GitHub. The token is a credential of the manifest: the host adds it to requests, and this code never sees it."""

import json
import re

from componentize_py_types import Err
from rind_sdk import http
from rind_sdk.toolset import Toolset, tool
from wit_world.imports import types

PARAMETERS = {
    "type": "object",
    "properties": {
        "repo": {"type": "string", "description": "Repository, as `owner/name`."},
        "number": {"type": "integer", "minimum": 0, "description": "Number of the issue."},
    },
    "required": ["repo", "number"],
    "additionalProperties": False,
}


class Tools(Toolset):
    @tool(types.EffectClass.EXTERNAL, PARAMETERS)
    def github_issue(self, repo: str, number: int) -> str:
        """Reads an issue of a GitHub repository: its title, state, author and text."""
        if not is_repository(repo):
            raise Err(types.Error_InvalidInput(f"`{repo}` is no repository; write owner/name"))
        request = http.Request(
            method="GET",
            url=f"https://api.github.com/repos/{repo}/issues/{number}",
            headers=[
                http.Header(name="accept", value="application/vnd.github+json"),
                http.Header(name="user-agent", value="rind-example"),
            ],
            body=b"",
        )
        response = http.send(request)
        if response.status == 404:
            raise Err(types.Error_NotFound(f"there is no issue {number} in {repo}, or the token may not read it"))
        if response.status != 200:
            raise Err(types.Error_Failed(f"GitHub answered {response.status}: {reason(response)}"))
        issue = json.loads(response.body)
        about = f"{issue['state']}, by {issue['user']['login']}, {issue['comments']} comments"
        text = "(no text)" if issue["body"] is None else issue["body"]
        return f"{repo}#{number}: {issue['title']} ({about})\n\n{text}"


def is_repository(text: str) -> bool:
    """Two names that cannot lead elsewhere in the address."""
    names = text.split("/")
    return len(names) == 2 and all(re.fullmatch(r"[A-Za-z0-9._-]+", name) and name not in (".", "..") for name in names)


def reason(response: http.Response) -> str:
    """Reason that GitHub gives when it refuses."""
    try:
        return json.loads(response.body)["message"]
    except (ValueError, KeyError, TypeError):
        return "no reason"
