"""What checks of constraints share: their options, and what they do without the engine's package."""
import pathlib

SKIP = 77  # the exit code that ctest shows as "Skipped"


def read_options(parser):
    """Adds the programs' folder, a model's path and the packages' folder to `parser`, and parses. None, with a line that says
    so: there is no llguidance."""
    for name in ("programs", "model", "packages"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if (options.packages / "llguidance").is_dir():
        return options
    print(f"no llguidance: skipped (deploy/fetch-llguidance): {options.packages}")
    return None
