"""Write a table of attributes to start a configuration from: one row per image.

    python examples/attributes.py

writes attributes.csv with a split, a label (Blond_Hair) and two attributes.
"""

from pathlib import Path

TABLE = """\
image,partition,Blond_Hair,Male,Young
1.jpg,train,1,0,1
2.jpg,train,0,1,1
3.jpg,train,0,0,0
4.jpg,test,1,0,1
5.jpg,test,0,1,0
"""

if __name__ == "__main__":
    Path("attributes.csv").write_text(TABLE, encoding="utf-8")
