"""``python -m grilly_ext_snn.demo``."""

from grilly_ext_snn.demo import main

if __name__ == "__main__":
    main()
