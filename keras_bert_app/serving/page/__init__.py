"""The page on /: its static files, and descriptions of the models for its forms."""

import pathlib

from aiohttp import web

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HEADERS = {
    # The page may load this server's files only, whatever a text or a label contains.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_routes(router: web.UrlDispatcher) -> None:
    """Adds / and /page/NAME, for every file in this directory, to aiohttp's router.

    Args:
        router: web.UrlDispatcher. The router of the application.
    """
    for path in pathlib.Path(__file__).parent.iterdir():
        if path.suffix in _TYPES:
            router.add_get("/" if path.name == "index.html" else f"/page/{path.name}", _handler(path))


def _handler(path):
    content = path.read_bytes()

    async def answer(request):
        return web.Response(body=content, content_type=_TYPES[path.suffix], charset="utf-8", headers=_HEADERS)

    return answer


def describe(model) -> dict:
    """Describes a model for the page.

    Args:
        model: models.Model. A served model.

    Returns:
        dict: name, versions and version_labels. If a version is loaded, also the number, the signatures and the content
        of export.json of the default version.
    """
    described = {
        "name": model.config.name,
        "versions": [version.number for version in model.available()],
        "version_labels": model.config.version_labels,
    }
    version = model.default()
    if version is None:
        return described
    signatures = {
        name: {
            "inputs": {
                spec.name: {"type": "string" if spec.dtype == object else spec.dtype.name, "shape": spec.shape}
                for spec in signature.inputs
            },
            "outputs": [spec.name for spec in signature.outputs],
        }
        for name, signature in sorted(version.servable.signatures.items())
    }
    return {**version.servable.description, **described, "version": version.number, "signatures": signatures}
