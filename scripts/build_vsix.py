"""Pack an extension for VS Code: a VSIX is a zip with two XML files, so no packaging tool is needed.

python scripts/build_vsix.py [FILE] [FOLDER]      (dist/hardwon-VERSION.vsix of plugins/vscode)
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import hardwon

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCE = CHECKOUT / "plugins" / "vscode"
TYPES = {".json": "application/json", ".js": "application/javascript", ".md": "text/markdown", ".txt": "text/plain"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def build_vsix(target: Path, source: Path) -> Path:
    package = json.loads((source / "package.json").read_text(encoding="utf-8"))
    package["version"] = hardwon.__version__  # said once, in the Python package
    files = {f"extension/{file.name}": file.read_text(encoding="utf-8") for file in sorted(source.glob("*.[jm][sd]"))}
    files["extension/LICENSE.txt"] = (CHECKOUT / "LICENSE").read_text(encoding="utf-8")
    files["extension/package.json"] = json.dumps(package, indent=2)
    files["extension.vsixmanifest"] = _build_manifest(package)
    files["[Content_Types].xml"] = _build_content_types()
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text)
    return target


def _build_manifest(package: dict[str, str]) -> str:
    names = {"Id": package["name"], "Version": package["version"], "Publisher": package["publisher"]}
    identity = " ".join(f"{key}={quoteattr(value)}" for key, value in names.items())
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" {identity}/>
    <DisplayName>{escape(package["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(package["description"])}</Description>
    <License>extension/LICENSE.txt</License>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def _build_content_types() -> str:
    types = {**TYPES, ".vsixmanifest": "text/xml"}
    rows = "".join(f'<Default Extension="{ending}" ContentType="{kind}"/>' for ending, kind in types.items())
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{rows}</Types>'
    )


if __name__ == "__main__":
    default_target = CHECKOUT / "dist" / f"hardwon-{hardwon.__version__}.vsix"
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else default_target
    print(build_vsix(target, Path(sys.argv[2]) if len(sys.argv) > 2 else SOURCE))
