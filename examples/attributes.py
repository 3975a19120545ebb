"""Write images and a table of attributes to start a configuration from: one row per image.

    python examples/attributes.py

writes attributes.csv with a split, a label (Blond_Hair) and two attributes, and plain squares in
faces/ that stand for photographs.
"""

from pathlib import Path

from PIL import Image

PEOPLE = 60
HAIR = {"1": (230, 200, 120), "0": (60, 40, 30)}

if __name__ == "__main__":
    faces = Path("faces")
    faces.mkdir(exist_ok=True)
    rows = ["image,partition,Blond_Hair,Male,Young"]
    for person in range(PEOPLE):
        name, partition = f"{person}.jpg", "test" if person % 3 == 0 else "train"
        blond, male, young = (str(person // step % 2) for step in (1, 2, 4))
        Image.new("RGB", (16, 16), HAIR[blond]).save(faces / name)
        rows.append(f"{name},{partition},{blond},{male},{young}")
    Path("attributes.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
