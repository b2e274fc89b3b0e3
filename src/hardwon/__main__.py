"""`python -m hardwon`"""

from hardwon.cli import main

main()
